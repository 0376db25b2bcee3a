//! Domain names (RFC 1035 section 3.1): labels of octets, compared without regard to ASCII case (RFC 4343).

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

use crate::SmallBytes;

/// An absolute domain name in uncompressed wire form, 1 to 255 octets. Case is kept and never compared.
///
/// A label may contain any octet (RFC 2181 section 11). The order is the canonical one of RFC 4034 section 6.1.
#[derive(Clone)]
pub struct Name(SmallBytes<30>);

impl Name {
    /// Largest number of octets of a name, including the root label (RFC 1035 section 2.3.4).
    pub const OCTETS_MAX: usize = 255;
    /// Largest number of octets of a label (RFC 1035 section 2.3.4).
    pub const LABEL_MAX: usize = 63;

    /// Returns the root.
    pub fn root() -> Self {
        Self([0][..].into())
    }

    /// Parses the uncompressed name at the start of `wire`; octets after it are ignored.
    pub fn from_wire(wire: &[u8]) -> Result<Self, NameError> {
        let mut end = 0;
        loop {
            let length = usize::from(*wire.get(end).ok_or(NameError::Cut)?);
            if length > Self::LABEL_MAX {
                return Err(NameError::Label(length));
            }
            end += 1 + length;
            if end > Self::OCTETS_MAX {
                return Err(NameError::Long);
            }
            if length == 0 {
                return Ok(Self(wire[..end].into()));
            }
        }
    }

    /// Parses presentation form, with `\DDD` and `\X` escapes (RFC 1035 section 5.1). A name without a final dot is
    /// relative to `origin`, and rejected without one. `@` alone means the origin.
    pub fn from_text(text: &[u8], origin: Option<&Self>) -> Result<Self, NameError> {
        let origin = || origin.ok_or(NameError::Relative);
        match text {
            b"" => return Err(NameError::EmptyLabel),
            b"." => return Ok(Self::root()),
            b"@" => return origin().cloned(),
            _ => {}
        }
        let mut wire = Vec::with_capacity(64);
        wire.push(0);
        let mut start = 0; // index of the length octet of the current label
        let mut rest = text;
        let mut absolute = false;
        while let Some((&octet, tail)) = rest.split_first() {
            rest = tail;
            if octet == b'.' {
                close_label(&mut wire, start)?;
                absolute = rest.is_empty();
                if !absolute {
                    start = wire.len();
                    wire.push(0);
                }
                continue;
            }
            let octet = if octet == b'\\' { unescape(&mut rest)? } else { octet };
            wire.push(octet);
        }
        if absolute {
            wire.push(0);
        } else {
            close_label(&mut wire, start)?;
            wire.extend_from_slice(&origin()?.0);
        }
        if wire.len() > Self::OCTETS_MAX { Err(NameError::Long) } else { Ok(Self(wire.into())) }
    }

    /// Parses presentation form, as [`FromStr`](std::str::FromStr) does, of a name that comes over the network: without control
    /// octets (0 to 31 and 127), which zone files may have.
    pub fn without_control(text: &str) -> Result<Self, NameError> {
        let name: Self = text.parse()?;
        let control = name.labels().flatten().find(|octet| octet.is_ascii_control());
        control.map_or(Ok(()), |octet| Err(NameError::Control(*octet)))?;
        Ok(name)
    }

    /// Returns the uncompressed wire form.
    #[inline]
    pub fn as_wire(&self) -> &[u8] {
        &self.0
    }

    /// Returns the labels from left to right, without the root label.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let length = usize::from(rest[0]);
            if length == 0 {
                return None;
            }
            let (label, tail) = rest[1..].split_at(length);
            rest = tail;
            Some(label)
        })
    }

    /// Returns the leftmost label and the wire form of the parent; `None` for the root.
    fn split(&self) -> Option<(&[u8], &[u8])> {
        let (length, rest) = self.0.split_first()?;
        (*length > 0).then(|| rest.split_at(usize::from(*length)))
    }

    /// Returns the number of labels, without the root label.
    pub fn label_count(&self) -> usize {
        self.labels().count()
    }

    /// Returns true if it is the root.
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }

    /// Returns true if its leftmost label is `*` (RFC 4592 section 2.1.1).
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with(b"\x01*")
    }

    /// Returns the name without its leftmost label; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        (!self.is_root()).then(|| Self(self.0[1 + usize::from(self.0[0])..].into()))
    }

    /// Returns true if it is `zone` itself or a subdomain of it.
    #[inline]
    pub fn is_within(&self, zone: &Self) -> bool {
        let Some(start) = self.0.len().checked_sub(zone.0.len()) else { return false };
        let octets = &*self.0;
        // The case is mostly equal, too, and that comparison covers many octets at a time.
        if octets[start..] != *zone.0 && !octets[start..].eq_ignore_ascii_case(&zone.0) {
            return false;
        }
        // The name of the zone must begin at a label: badexample. is not within example.
        let mut at = 0;
        while at < start {
            at += 1 + usize::from(octets[at]);
        }
        at == start
    }

    /// Returns the child with this leftmost label.
    pub fn child(&self, label: &[u8]) -> Result<Self, NameError> {
        let length = u8::try_from(label.len()).ok().filter(|l| (1..=63).contains(l));
        let length = length.ok_or(NameError::Label(label.len()))?;
        if label.len() + 1 + self.0.len() > Self::OCTETS_MAX {
            return Err(NameError::Long);
        }
        Ok(Self([&[length], label, &self.0[..]].concat().into()))
    }

    /// Returns true if it can be the full name of a host (RFC 1123 section 2.1, with `_`): at least two labels of letters, digits and
    /// hyphens, the last of which is not a number, as those of misspelt IPv4 addresses are.
    pub fn is_host(&self) -> bool {
        let is_plain = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        let is_number = self.labels().last().is_some_and(|last| last.iter().all(u8::is_ascii_digit));
        self.label_count() > 1 && !is_number && self.labels().flatten().all(is_plain)
    }

    /// Returns the name as URLs, TLS and keys of objects write it: in lower case, without the final dot. The root is `.`.
    pub fn to_plain(&self) -> String {
        let mut text = self.to_string();
        if !self.is_root() {
            text.pop();
        }
        text.make_ascii_lowercase();
        text
    }

    /// Returns the name in lower case, as it is hashed and stored.
    pub fn to_lowercase(&self) -> Self {
        // Length octets are at most 63 and so never letters.
        let mut lower = self.clone();
        lower.0.make_ascii_lowercase();
        lower
    }
}

/// Compares two labels octet by octet without regard to case; a label sorts before its extensions.
fn compare_labels(a: &[u8], b: &[u8]) -> Ordering {
    let unequal = a.iter().zip(b).filter(|(a, b)| a != b);
    let mut orders = unequal.map(|(a, b)| a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()));
    orders.find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Offsets of the labels of a name, for a comparison that begins at the root.
struct LabelOffsets {
    /// Offsets of the length octets; a name has at most 127 labels and the root label.
    at: [u8; 128],
    count: usize,
}

impl LabelOffsets {
    fn of(name: &Name) -> Self {
        let mut offsets = Self { at: [0; 128], count: 0 };
        let octets = name.as_wire();
        let mut at = 0;
        while octets[at] != 0 {
            offsets.at[offsets.count] = at as u8; // a name has at most 255 octets
            offsets.count += 1;
            at += 1 + usize::from(octets[at]);
        }
        offsets
    }

    /// Returns the label at a depth below the root; depths count from 1.
    fn label<'n>(&self, name: &'n Name, depth: usize) -> &'n [u8] {
        let label = &name.as_wire()[usize::from(self.at[self.count - depth])..];
        &label[1..][..usize::from(label[0])]
    }
}

/// Writes the length octet of the label that began at `start`.
fn close_label(wire: &mut [u8], start: usize) -> Result<(), NameError> {
    let length = wire.len() - start - 1;
    if length == 0 {
        return Err(NameError::EmptyLabel);
    }
    let short = u8::try_from(length).ok().filter(|l| usize::from(*l) <= Name::LABEL_MAX);
    wire[start] = short.ok_or(NameError::Label(length))?;
    Ok(())
}

/// Parses an escape after its backslash: three decimal digits, or one octet that stands for itself (RFC 1035 section 5.1).
fn unescape(rest: &mut &[u8]) -> Result<u8, NameError> {
    let (&first, tail) = rest.split_first().ok_or(NameError::Escape)?;
    if !first.is_ascii_digit() {
        *rest = tail;
        return Ok(first);
    }
    let (digits, tail) = rest.split_at_checked(3).ok_or(NameError::Escape)?;
    let value = digits.iter().try_fold(0u16, |sum, d| d.is_ascii_digit().then(|| sum * 10 + u16::from(d - b'0')));
    *rest = tail;
    value.and_then(|v| u8::try_from(v).ok()).ok_or(NameError::Escape)
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // One write of the whole name is several times as fast as one per octet.
        let mut lower = [0; Self::OCTETS_MAX];
        let lower = &mut lower[..self.0.len()];
        lower.copy_from_slice(&self.0);
        lower.make_ascii_lowercase();
        state.write(lower);
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        // Most compared names have the same parent and differ in their first label only.
        if let (Some((a, above)), Some((b, below))) = (self.split(), other.split())
            && above == below
        {
            return compare_labels(a, b);
        }
        let (ours, theirs) = (LabelOffsets::of(self), LabelOffsets::of(other));
        // From the root on, the first label that differs decides, else the number of labels.
        for depth in 1..=ours.count.min(theirs.count) {
            match compare_labels(ours.label(self, depth), theirs.label(other, depth)) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        ours.count.cmp(&theirs.count)
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Name {
    /// Writes presentation form with the final dot; special and unprintable octets are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for label in self.labels() {
            for &octet in label {
                match octet {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => write!(f, "\\{}", char::from(octet))?,
                    0x21..=0x7e => write!(f, "{}", char::from(octet))?,
                    _ => write!(f, "\\{octet:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;

    /// Parses presentation form; the final dot may be missing.
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::from_text(text.as_bytes(), Some(&Self::root()))
    }
}

/// Error of parsing a domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A control octet in a name that must not have any.
    #[error("the name has the control octet \\{0:03}, which only zone files may have; use letters, digits and hyphens")]
    Control(u8),
    /// The octets end within the name.
    #[error("the name is cut off")]
    Cut,
    /// Two dots in a row, a leading dot, or an empty text.
    #[error("a label is empty; only the root, '.', has no label")]
    EmptyLabel,
    /// A backslash without a valid escape.
    #[error("a backslash must be followed by one character or three digits up to 255")]
    Escape,
    /// A label over [`Name::LABEL_MAX`] octets.
    #[error("a label has {0} octets, over the limit of 63 (RFC 1035 section 2.3.4)")]
    Label(usize),
    /// A name over [`Name::OCTETS_MAX`] octets.
    #[error("the name is over 255 octets (RFC 1035 section 2.3.4)")]
    Long,
    /// A name without a final dot, and no origin.
    #[error("the name is relative and no origin is set; end it with a dot")]
    Relative,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn name_displays_as_it_was_parsed() {
        for text in [".", "a.", "www.Example.TEST.", "a\\.b.c.", "\\000\\255.x.", "*.w."] {
            assert_eq!(name(text).to_string(), text);
        }
        assert_eq!(name("www.example").to_string(), "www.example.");
    }

    #[test]
    fn control_octets_are_rejected_where_names_come_over_the_network() {
        for (text, octet) in [("a\\016.x", 16), ("\\127", 127), ("a.\\000b", 0), ("a\tb", 9)] {
            assert_eq!(Name::without_control(text), Err(NameError::Control(octet)), "{text:?}");
            assert!(text.parse::<Name>().is_ok(), "{text:?}: a zone file may have it");
        }
        for text in ["www.Example", "*.a_b.c", "\\032\\255.x", "."] {
            assert_eq!(Name::without_control(text), text.parse(), "{text}");
        }
        let message = NameError::Control(16).to_string();
        assert!(message.starts_with("the name has the control octet \\016"), "{message}");
    }

    #[test]
    fn relative_name_needs_an_origin() {
        let origin = name("example.");
        assert_eq!(Name::from_text(b"www", Some(&origin)), Ok(name("www.example.")));
        assert_eq!(Name::from_text(b"@", Some(&origin)), Ok(origin));
        assert_eq!(Name::from_text(b"www", None), Err(NameError::Relative));
    }

    #[test]
    fn name_over_63_or_255_octets_is_rejected() {
        let label = "a".repeat(63);
        assert!(name(&label).label_count() == 1);
        assert_eq!("b".repeat(64).parse::<Name>(), Err(NameError::Label(64)));
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(name(&longest).as_wire().len(), 255);
        assert_eq!(format!("{longest}a").parse::<Name>(), Err(NameError::Long));
    }

    #[test]
    fn empty_label_or_broken_escape_is_rejected() {
        for text in ["a..b", ".a", "", ".."] {
            assert_eq!(text.parse::<Name>(), Err(NameError::EmptyLabel), "{text}");
        }
        for text in ["a\\", "a\\25", "a\\256.", "a\\1x2."] {
            assert_eq!(text.parse::<Name>(), Err(NameError::Escape), "{text}");
        }
    }

    #[test]
    fn case_is_kept_and_not_compared() {
        assert_eq!(name("WwW.eXample."), name("www.example."));
        assert_eq!(name("WwW.").to_string(), "WwW.");
    }

    #[test]
    fn is_within_compares_whole_labels() {
        assert!(name("a.example.").is_within(&name("EXAMPLE.")));
        assert!(name("example.").is_within(&name("example.")));
        assert!(!name("badexample.").is_within(&name("example.")));
        // The octets of the parent, but inside a longer label.
        assert!(!name("x\\007example.").is_within(&name("example.")));
        assert!(name("a.").is_within(&Name::root()));
    }

    #[test]
    fn names_sort_in_canonical_order() {
        // The example of RFC 4034 section 6.1.
        let sorted = ["example.", "a.example.", "yljkjljk.a.example.", "Z.a.example.", "zABC.a.EXAMPLE.", "z.example."];
        let names: Vec<_> = sorted.iter().map(|t| name(t)).collect();
        assert!(names.is_sorted());
    }

    #[test]
    fn wire_form_is_parsed_up_to_its_root_label() {
        assert_eq!(Name::from_wire(b"\x01a\x00rest"), Ok(name("a.")));
        assert_eq!(Name::from_wire(b"\x01a"), Err(NameError::Cut));
        assert_eq!(Name::from_wire(b"\xc0\x0c"), Err(NameError::Label(192)));
    }
}
