"""What the app tells about itself: events in the log, spans and metrics where somebody collects them.

Names are static and stand in catalogues, so that alerts, saved queries and the documentation refer to the same words.
Nothing here ever holds a payload or a secret: fields are ids, numbers, reasons and kinds of errors.
"""
