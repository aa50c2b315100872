"""Questions 6.11 and 6.12, answered in words."""

from inspect import cleandoc

from ..engine import OpenQuestion

believe_the_map = OpenQuestion(
    "6.11",
    "believe_the_map",
    section="A checklist",
    statement=cleandoc("""
        A colleague sends you a picture. A small classifier reads letters that ask for a loan; in one letter the
        attention weights are drawn over the words, and *unemployed* is dark. “You see,” the colleague writes, “the
        model refuses because of this word.” You may use the model, its training script and a thousand other letters.

        What do you do before you believe the sentence? Give your steps in order, and for each say **which result
        would speak against it**. About 200 words.
    """),
    model_answer=cleandoc("""
        First I make the sentence one that can be false: “if the word is taken out or replaced, the refusal gets less
        likely, and by more than for most words of the letter.” (*Aim.*)

        A dark word alone says nothing. I compare its weight with uniform weights, and with the weight that the same
        place gets in other letters. If it is dark in any letter, the picture shows the place. (*Baseline.*)

        Then I delete the word, and I replace it by others that fit (*employed*, *retired*), and do the same with each
        other word. If the probability hardly moves, or moves as much for *the*, the sentence is false for this
        letter. (*Intervention.*)

        One letter and one training are an anecdote. I repeat it for all letters with the word and for at least five
        models from other seeds, and give intervals. If the sign changes from seed to seed, I say nothing about the
        word. (*Seeds.*)

        Last I put uniform weights in place of the learned ones. If this letter is refused as before, its
        decision did not need these weights; if a model trained with uniform weights is as accurate, the task does not
        need any. And if they are needed, the states of this model may know their neighbours: then *unemployed* is also
        a place where others are heard. (*Task check.*)
    """),
    rubric={
        "Turns the sentence into a statement that a result could contradict (aim).": 1,
        "Compares the weight with something (uniform, other places, letters, words), and says which outcome "
        "speaks against the sentence (baseline).": 1,
        "Changes the input or the weights and looks at the output, for this word and others, and says which outcome "
        "speaks against it (intervention).": 1,
        "Repeats over letters and over trained models, with a spread, and says what an unstable result means "
        "(seeds).": 1,
        "Asks whether the model needs its attention at all, or what besides the weight may decide: values, later "
        "layers, states that know their neighbours (task check).": 1,
    },
)

what_follows = OpenQuestion(
    "6.12",
    "what_follows",
    section="The reply",
    statement=cleandoc("""
        An (invented) report on a text classifier says: accuracy with attention 0.742, with uniform weights 0.735,
        five seeds each, interval of the difference −0.006 to 0.020. Kendall's τ between weights and the effect of
        deleting a word: 0.22, interval 0.19 to 0.25. For most texts there are other weights, at a Jensen–Shannon
        divergence of 0.64 from the model's own, with the same prediction; between two seeds the divergence is 0.12.

        Which of these sentences follow? Give a reason for each, and for those that do not follow say what is missing.
        Two or three sentences each are enough.

        - (a) Attention is useless.
        - (b) The weights say nothing about how the model decides.
        - (c) Since very different weights give the same prediction, the model's own weights are arbitrary.
        - (d) On such texts the order of the words by weight is no reliable guide to their order by deletion.
    """),
    model_answer=cleandoc("""
        (a) does not follow. The interval holds zero, and also a gain of two points: no difference was *found*, with
        five seeds, for this model and these texts. Missing: more seeds, or an interval narrow enough to exclude what
        one would call useful; and other tasks.

        (b) does not follow. τ is low but above zero, with an interval that excludes zero; and deletion is one way to
        ask. Weights could say something about another aim. Missing: a stated aim, and a comparison with other
        rankings and with random ones.

        (c) does not follow. The other weights *exist*; nobody has shown that a model would compute them from a text.
        What training finds is stable: two seeds differ by 0.12, a fifth of 0.64. Missing: a *model* that computes
        such weights and is as good.

        (d) follows as far as it goes: a τ of 0.22 means that (without ties) some 61 % of all pairs of words stand in
        the same order, where coin tosses would give 50 %. It is about these texts, this kind of model, and deletion.
        Of the word with the *largest* weight it says nothing: that one could be right in every text.
    """),
    rubric={
        "(a) does not follow: no difference found is not a proof of none, and other tasks were not tried.": 1,
        "(b) does not follow: a low agreement with one other measure, above chance, is not “nothing”.": 1,
        "(c) does not follow: weights that exist are not weights that a model computes; seeds are the yardstick.": 1,
        "(d) follows, with its scope named: the order of all words, these texts, deletion.": 1,
    },
)
