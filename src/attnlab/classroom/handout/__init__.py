"""Hand out: assignments made from the course's notebooks."""
