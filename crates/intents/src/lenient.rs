//! Bodies as wiki pages print them, made JSON: comments, durations without quotes, texts in single quotes.
//!
//! What it mends keeps its line. Missing commas stay missing, and are told with line and column: where one belongs is a guess.

/// The same body without what JSON does not have.
pub fn mend(octets: &[u8]) -> Vec<u8> {
    let mut mended = Vec::with_capacity(octets.len() + 16);
    let mut at = 0;
    while at < octets.len() {
        let rest = &octets[at..];
        let taken = match rest {
            [b'"', ..] => {
                let end = end_of_text(rest, b'"');
                mended.extend_from_slice(&rest[..end]);
                end
            }
            [b'\'', ..] => {
                let end = end_of_text(rest, b'\'');
                let inner = rest[1..end].strip_suffix(b"'").unwrap_or_else(|| &rest[1..end]);
                mended.push(b'"');
                mended.extend(inner.iter().filter(|octet| !matches!(octet, b'"' | b'\\')));
                mended.push(b'"');
                end
            }
            // A single slash before a space is the seed's own slip for two.
            [b'/', b'/' | b' ', ..] => {
                let end = rest.iter().position(|octet| *octet == b'\n').unwrap_or(rest.len());
                mended.extend(std::iter::repeat_n(b' ', end));
                end
            }
            [digit, ..] if digit.is_ascii_digit() && is_outside(&mended) => {
                let end = rest.iter().position(|octet| !octet.is_ascii_alphanumeric()).unwrap_or(rest.len());
                let duration = rest[..end].iter().any(u8::is_ascii_alphabetic);
                mended.extend(duration.then_some(b'"'));
                mended.extend_from_slice(&rest[..end]);
                mended.extend(duration.then_some(b'"'));
                end
            }
            [other, ..] => {
                mended.push(*other);
                1
            }
            [] => 1,
        };
        at += taken;
    }
    mended
}

/// Whether a value may begin here: a number within `1.5e3` is none of its own.
fn is_outside(before: &[u8]) -> bool {
    before.last().is_none_or(|octet| octet.is_ascii_whitespace() || matches!(octet, b':' | b'[' | b','))
}

/// The place after a text that begins here; the end of the line where it does not end.
fn end_of_text(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote && rest[at] != b'\n' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_wire::Json;

    fn mended(text: &str) -> String {
        String::from_utf8(mend(text.as_bytes())).unwrap()
    }

    #[test]
    fn what_wiki_pages_print_becomes_json() {
        let text =
            "{ \"a\": 5m, // \"minutes\"\n / a comment\n \"b\": '', \"c\": [1, 1.5e3, 10s], \"d\": \"http://x\" }";
        let json = Json::read(mended(text).as_bytes()).unwrap();
        assert_eq!(json.to_text(), br#"{"a":"5m","b":"","c":[1,1500.0,"10s"],"d":"http://x"}"#);
    }

    #[test]
    fn a_missing_comma_is_told_in_its_line() {
        let text = mended("{ // one\n \"name\": \"<>\" // unique name\n \"b\": 1 }");
        assert!(Json::read(text.as_bytes()).unwrap_err().detail.starts_with("line 3 column 2: expected `,`"));
    }

    #[test]
    fn no_octets_make_it_fail() {
        for text in ["\"", "'", "\"\\", "'\\", "/", "//", "1", "5m", "\"a\n"] {
            mended(text);
        }
        mend(&[0xff, b'"', 0xfe]);
    }
}
