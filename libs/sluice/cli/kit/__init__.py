"""Parts that all commands share: words, tables, files, output. Nothing here talks to a cell."""
