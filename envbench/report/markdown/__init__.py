"""Tables written as Markdown between the markers of a document."""
