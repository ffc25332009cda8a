"""Archives the log, and cuts it behind verified bases, as its settings say."""
