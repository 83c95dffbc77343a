"""`make prove`: a whole installation in Azure for an hour or two, examined, written down and removed. `--local` rehearses it."""
