//! Converts bodies as wiki pages print them to JSON: comments, durations without quotes, texts in single quotes.
//!
//! Line numbers do not change. Missing commas are not added, since their place would be a guess: the JSON parser reports line and column.

/// Returns the body without what JSON does not have.
pub fn to_json(bytes: &[u8]) -> Vec<u8> {
    let mut json = Vec::with_capacity(bytes.len() + 16);
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let taken = match rest {
            [b'"', ..] => {
                let end = end_of_text(rest, b'"');
                json.extend_from_slice(&rest[..end]);
                end
            }
            [b'\'', ..] => {
                let end = end_of_text(rest, b'\'');
                let inner = rest[1..end].strip_suffix(b"'").unwrap_or_else(|| &rest[1..end]);
                json.push(b'"');
                json.extend(inner.iter().filter(|byte| !matches!(byte, b'"' | b'\\')));
                json.push(b'"');
                end
            }
            // One slash before a space is an error of the wiki for two.
            [b'/', b'/' | b' ', ..] => {
                let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                json.extend(std::iter::repeat_n(b' ', end));
                end
            }
            [digit, ..] if digit.is_ascii_digit() && is_outside(&json) => {
                let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len());
                let duration = rest[..end].iter().any(u8::is_ascii_alphabetic);
                json.extend(duration.then_some(b'"'));
                json.extend_from_slice(&rest[..end]);
                json.extend(duration.then_some(b'"'));
                end
            }
            [other, ..] => {
                json.push(*other);
                1
            }
            [] => 1,
        };
        at += taken;
    }
    json
}

/// True if a value may begin after these bytes: the digits within `1.5e3` are no value of their own.
fn is_outside(before: &[u8]) -> bool {
    before.last().is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b':' | b'[' | b','))
}

/// Returns the end of a text that begins here; the end of the line if the text is not closed.
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

    fn converted(text: &str) -> String {
        String::from_utf8(to_json(text.as_bytes())).unwrap()
    }

    #[test]
    fn wiki_body_is_converted_to_json() {
        let text =
            "{ \"a\": 5m, // \"minutes\"\n / a comment\n \"b\": '', \"c\": [1, 1.5e3, 10s], \"d\": \"http://x\" }";
        let json = Json::read(converted(text).as_bytes()).unwrap();
        assert_eq!(json.to_text(), br#"{"a":"5m","b":"","c":[1,1500.0,"10s"],"d":"http://x"}"#);
    }

    #[test]
    fn missing_comma_is_reported_with_its_line() {
        let text = converted("{ // one\n \"name\": \"<>\" // unique name\n \"b\": 1 }");
        assert!(Json::read(text.as_bytes()).unwrap_err().detail.starts_with("line 3 column 2: expected `,`"));
    }

    #[test]
    fn unclosed_texts_are_accepted() {
        for text in ["\"", "'", "\"\\", "'\\", "/", "//", "1", "5m", "\"a\n"] {
            converted(text);
        }
        to_json(&[0xff, b'"', 0xfe]);
    }
}
