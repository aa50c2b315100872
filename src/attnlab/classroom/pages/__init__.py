"""What people read: a page for every student, a report for the teacher."""
