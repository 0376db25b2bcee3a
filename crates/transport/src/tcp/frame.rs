//! Messages in a stream: two octets of length, then the message (RFC 1035 section 4.2.2).

/// Octets of a DNS header; no message is shorter.
const HEADER: usize = 12;

/// Octets of the length before each message.
pub(super) const LENGTH: usize = 2;

/// The start of a stream of octets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A complete message, without its length field.
    Message(&'a [u8]),
    /// Part of a message, or nothing.
    Incomplete,
    /// A length shorter than a DNS header. The rest of the stream cannot be framed.
    Broken,
}

/// Returns the first message.
pub(super) fn first(octets: &[u8]) -> Frame<'_> {
    let Some((length, rest)) = octets.split_first_chunk::<LENGTH>() else { return Frame::Incomplete };
    let length = usize::from(u16::from_be_bytes(*length));
    if length < HEADER {
        return Frame::Broken;
    }
    rest.get(..length).map_or(Frame::Incomplete, Frame::Message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_without_its_last_octet_is_incomplete() {
        let stream = [&[0, 12][..], &[7; 12], &[0, 13]].concat();
        assert_eq!(first(&stream), Frame::Message(&[7; 12]));
        assert_eq!(first(&stream[14..]), Frame::Incomplete);
        for cut in 0..14 {
            assert_eq!(first(&stream[..cut]), Frame::Incomplete, "cut at {cut}");
        }
    }

    #[test]
    fn length_shorter_than_a_header_is_broken_before_the_message_arrives() {
        for length in 0..12 {
            assert_eq!(first(&[0, length]), Frame::Broken);
        }
        assert_eq!(first(&[0, 12]), Frame::Incomplete);
        assert_eq!(first(&[255, 255, 1]), Frame::Incomplete);
    }
}
