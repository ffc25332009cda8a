"""Text about a failure of an author's function that can be logged and published, always."""


def readable(text: str) -> str:
    """Return *text* with what is no Unicode escaped, as the names of files can hold it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def told(error: BaseException) -> str:
    """Return an exception's class and text, also of one that has none to give."""
    try:
        text = readable(str(error))
    except BaseException as another:
        text = f"its text cannot be had ({type(another).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
