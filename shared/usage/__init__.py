"""What a job costs: every billable request, counted where it is sent, by cause."""
