//! What a scrape must say.
