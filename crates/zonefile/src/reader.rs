//! Lines of a master file into records: owners, TTLs, classes, directives (RFC 1035 section 5, RFC 2308 section 4).

use std::sync::Arc;

use fairway_model::{Diagnostic, FileLocation, Name, Rtype, Ttl};

use super::{
    Include, Record, ZoneData,
    faults::{Faults, Wrong, show},
    lexer::{Begin, Lexer, Word},
    rdata,
};

/// How deep files may include each other.
const DEPTH_MAX: usize = 10;
/// How many inclusions a zone may have. With the depth it bounds the work that a few lines can ask for.
const INCLUSIONS_MAX: usize = 4_096;
/// Most octets of all texts of a zone together, so that inclusions cannot fill the memory: 2 GiB.
const OCTETS_MAX: usize = 2 << 30;

/// Reads one zone.
pub(super) struct Reader<'i> {
    zone: ZoneData,
    faults: Faults,
    include: Include<'i>,
    /// What $TTL said last, or the SOA's minimum where nothing was said before it.
    default_ttl: Option<Ttl>,
    /// The last TTL that a record stated.
    last_ttl: Option<Ttl>,
    /// The files being read, each including the next, by index.
    open: Vec<u16>,
    /// Inclusions so far.
    inclusions: usize,
    /// Octets that may still be read.
    octets_left: usize,
    /// Records that $GENERATE made so far.
    pub(super) generated: usize,
    /// Octets of text that $GENERATE made so far.
    pub(super) generated_octets: usize,
    /// RDATA being put together, kept for its memory.
    rdata: Vec<u8>,
}

/// What holds in one text, and is as before when it ends (RFC 1035 section 5.1).
pub(super) struct Frame {
    file: u16,
    /// What relative names are completed with.
    pub(super) origin: Name,
    /// Wire form of the last stated owner; empty if there is none yet.
    owner: Vec<u8>,
    /// The line that generated text stands for.
    pub(super) line: Option<u32>,
}

impl<'i> Reader<'i> {
    pub(super) fn new(origin: &Name, path: &str, include: Include<'i>) -> Self {
        Self {
            zone: ZoneData { origin: origin.clone(), records: vec![], files: vec![path.into()] },
            faults: Faults::default(),
            include,
            default_ttl: None,
            last_ttl: None,
            open: vec![],
            inclusions: 0,
            octets_left: OCTETS_MAX,
            generated: 0,
            generated_octets: 0,
            rdata: vec![],
        }
    }

    /// Reads all of it.
    pub(super) fn read(mut self, text: &[u8]) -> (ZoneData, Vec<Diagnostic>) {
        let origin = self.zone.origin.clone();
        self.text(text, Frame { file: 0, origin, owner: vec![], line: None });
        let place = FileLocation { file: Arc::clone(&self.zone.files[0]), line: 0, column: 0 };
        (self.zone, self.faults.finish(place))
    }

    /// Reads one text to its end, whatever is wrong in it.
    fn text(&mut self, text: &[u8], mut frame: Frame) {
        if text.len() > self.octets_left {
            let place =
                FileLocation { file: Arc::clone(&self.zone.files[usize::from(frame.file)]), line: 0, column: 0 };
            self.faults.add(Diagnostic::error(
                place,
                "the zone file and its included files are over 2 GiB in total",
                "split the zone",
            ));
            return;
        }
        self.octets_left -= text.len();
        self.open.push(frame.file);
        let mut lexer = Lexer::new(text);
        self.lines(&mut lexer, &mut frame);
        if lexer.ends_without_newline() {
            // Cut in its last record, a text may well read as another record: 192.0.2.15 of 192.0.2.150.
            let place = self.place(&lexer, &frame, text.len());
            let what = "the file does not end with a line break; it may be truncated";
            self.faults.add(Diagnostic::error(place, what, "complete the last line and end it with a line break"));
        }
        self.open.pop();
    }

    /// Reads lines until the text ends. Also says whether all were right.
    pub(super) fn lines(&mut self, lexer: &mut Lexer<'_>, frame: &mut Frame) -> bool {
        let mut right = true;
        loop {
            let begin = lexer.begin();
            if begin == Begin::End {
                return right;
            }
            let read = self.line(begin, lexer, frame);
            // After a fault the rest of its record is skipped; without one nothing is left but the line's end.
            for wrong in [read.err(), lexer.skip_record().err()].into_iter().flatten() {
                right = false;
                let place = self.place(lexer, frame, wrong.at);
                self.faults.add(Diagnostic::error(place, wrong.what, wrong.hint));
            }
        }
    }

    fn line(&mut self, begin: Begin, lexer: &mut Lexer<'_>, frame: &mut Frame) -> Result<(), Wrong> {
        let line = frame.line.unwrap_or_else(|| lexer.line());
        if begin == Begin::Owner {
            // Empty parentheses are an empty line.
            let Some(word) = lexer.word()? else { return Ok(()) };
            if word.text.starts_with(b"$") && !word.quoted {
                return self.directive(word, lexer, frame);
            }
            frame.owner.clear();
            if word.quoted {
                return Err(Wrong::new(word.at, "a domain name must not be quoted", "remove the quotes"));
            }
            if let Err(error) = rdata::read_name(word.text, &frame.origin, &mut frame.owner) {
                frame.owner.clear();
                return Err(rdata::show_name_error(word, error));
            }
        }
        let Some(first) = lexer.word()? else {
            if begin == Begin::Blank {
                return Ok(());
            }
            return Err(Wrong::new(lexer.at(), "the record ends after the owner name", "add a type and data"));
        };
        self.record(line, first, lexer, frame)
    }

    /// Reads a record from the word after its owner on.
    fn record<'a>(&mut self, line: u32, first: Word<'a>, lexer: &mut Lexer<'a>, frame: &Frame) -> Result<(), Wrong> {
        let (stated_ttl, type_word, rtype) = header(first, lexer)?;
        self.rdata.clear();
        rdata::read(rtype, lexer, &frame.origin, &mut self.rdata)?;
        let ttl = match stated_ttl.or(self.default_ttl).or(self.last_ttl) {
            Some(ttl) => ttl,
            None => self.ttl_of_soa(type_word, rtype, lexer, frame)?,
        };
        self.last_ttl = stated_ttl.or(self.last_ttl);
        if frame.owner.is_empty() {
            let what = "the line begins with a blank, but no record before it has an owner name";
            return Err(Wrong::new(first.at, what, "begin the line with a domain name"));
        }
        let owner = Name::from_wire(&frame.owner).map_err(|e| Wrong::new(first.at, e.to_string(), ""))?;
        if !owner.is_within(&self.zone.origin) {
            let what = format!("{owner} is outside the zone {}; the record is ignored", self.zone.origin);
            self.warn(lexer, frame, Wrong::new(first.at, what, "remove it, or check the name and $ORIGIN"));
            return Ok(());
        }
        let rdata = self.rdata.as_slice().into();
        self.zone.records.push(Record { owner, rtype, ttl, rdata, file: frame.file, line });
        Ok(())
    }

    /// Where no TTL was said at all, the SOA has its own minimum, and so has what follows.
    fn ttl_of_soa(&mut self, word: Word<'_>, rtype: Rtype, lexer: &Lexer<'_>, frame: &Frame) -> Result<Ttl, Wrong> {
        let minimum = self.rdata.last_chunk::<4>().filter(|_| rtype == Rtype::SOA);
        let minimum = minimum.and_then(|octets| Ttl::from_secs(u32::from_be_bytes(*octets)).ok());
        let Some(ttl) = minimum else {
            return Err(Wrong::new(
                word.at,
                "the record has no TTL, and neither $TTL nor an earlier record sets one",
                "begin the file with $TTL 1h",
            ));
        };
        self.default_ttl = Some(ttl);
        let what = format!("no TTL is given; the SOA minimum, {ttl}, applies");
        self.warn(lexer, frame, Wrong::new(word.at, what, "begin the file with $TTL 1h"));
        Ok(ttl)
    }

    fn directive(&mut self, word: Word<'_>, lexer: &mut Lexer<'_>, frame: &mut Frame) -> Result<(), Wrong> {
        match word.text.to_ascii_uppercase().as_slice() {
            b"$ORIGIN" => {
                let word = argument(lexer, "a domain name")?;
                let mut wire = vec![];
                rdata::read_name(word.text, &frame.origin, &mut wire)
                    .and_then(|()| Name::from_wire(&wire))
                    .map(|origin| frame.origin = origin)
                    .map_err(|error| rdata::show_name_error(word, error))?;
            }
            b"$TTL" => {
                let word = argument(lexer, "a TTL like 3600 or 1h")?;
                self.default_ttl = Some(read_ttl(word)?);
            }
            b"$INCLUDE" => return self.inclusion(lexer, frame),
            b"$GENERATE" if frame.line.is_none() => return self.generate(lexer, frame),
            _ => {
                let what = format!("{} is not a supported directive", show(word.text));
                return Err(Wrong::new(word.at, what, "use $ORIGIN, $TTL, $INCLUDE or $GENERATE"));
            }
        }
        nothing_more(lexer)
    }

    /// `$INCLUDE FILE [ORIGIN]`.
    fn inclusion(&mut self, lexer: &mut Lexer<'_>, frame: &Frame) -> Result<(), Wrong> {
        let file = argument(lexer, "the path of a file")?;
        let path = std::str::from_utf8(file.text)
            .map_err(|_| Wrong::new(file.at, "the path is not valid UTF-8", "rename the file"))?;
        let mut origin = frame.origin.clone();
        if let Some(word) = lexer.word()? {
            let mut wire = vec![];
            origin = rdata::read_name(word.text, &frame.origin, &mut wire)
                .and_then(|()| Name::from_wire(&wire))
                .map_err(|error| rdata::show_name_error(word, error))?;
            nothing_more(lexer)?;
        }
        let refuse = |what: &str, hint: &'static str| {
            Err(Wrong::new(file.at, format!("cannot include {}: {what}", show(file.text)), hint))
        };
        if self.open.iter().any(|open| self.is_file(*open, path)) {
            return refuse(
                "it includes itself, directly or through other files",
                "remove one of the $INCLUDE lines of the cycle",
            );
        }
        if self.open.len() > DEPTH_MAX {
            return refuse("includes are nested more than 10 deep", "include it from a file further up");
        }
        self.inclusions += 1;
        if self.inclusions > INCLUSIONS_MAX {
            return refuse("the zone has more than 4096 $INCLUDE lines", "merge some of the files");
        }
        let text = match (self.include)(path) {
            Ok(text) => text,
            Err(error) => return refuse(&error, "correct the path, or make the file readable"),
        };
        let known = self.zone.files.iter().position(|known| **known == *path);
        let index = known.unwrap_or_else(|| {
            self.zone.files.push(path.into());
            self.zone.files.len() - 1
        });
        // At most one file an inclusion, of which there are at most 4096.
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        self.text(&text, Frame { file: index, origin, owner: frame.owner.clone(), line: None });
        Ok(())
    }

    /// Whether a path written after $INCLUDE is this file. The zone file itself is also known by its bare name, since
    /// relative paths begin at its folder; what escapes this is stopped by the depth.
    fn is_file(&self, file: u16, path: &str) -> bool {
        let known = &*self.zone.files[usize::from(file)];
        known == path || (file == 0 && known.rsplit_once('/').is_some_and(|(_, bare)| bare == path))
    }

    fn place(&self, lexer: &Lexer<'_>, frame: &Frame, at: usize) -> FileLocation {
        let file = Arc::clone(&self.zone.files[usize::from(frame.file)]);
        let (line, column) = match frame.line {
            Some(line) => (line, 1),
            None => lexer.position(at),
        };
        FileLocation { file, line, column }
    }

    fn warn(&mut self, lexer: &Lexer<'_>, frame: &Frame, wrong: Wrong) {
        let place = self.place(lexer, frame, wrong.at);
        self.faults.add(Diagnostic::warning(place, wrong.what, wrong.hint));
    }

    /// A frame for text that a line of `frame` stands for.
    pub(super) fn generated_frame(frame: &Frame, line: u32) -> Frame {
        Frame { file: frame.file, origin: frame.origin.clone(), owner: frame.owner.clone(), line: Some(line) }
    }
}

/// TTL and class in either order, each at most once, then the type.
fn header<'a>(first: Word<'a>, lexer: &mut Lexer<'a>) -> Result<(Option<Ttl>, Word<'a>, Rtype), Wrong> {
    let mut word = first;
    let mut ttl = None;
    let mut class_seen = false;
    loop {
        if word.quoted {
            return Err(Wrong::new(word.at, "expected a record type, found a quoted string", "remove the quotes"));
        }
        if word.text.first().is_some_and(u8::is_ascii_digit) && ttl.is_none() {
            ttl = Some(read_ttl(word)?);
        } else if !class_seen && is_class(word)? {
            class_seen = true;
        } else {
            return read_type(word).map(|rtype| (ttl, word, rtype));
        }
        word = lexer.word()?.ok_or_else(|| Wrong::new(lexer.at(), "the record ends before its type", "complete it"))?;
    }
}

/// Whether a word is a class, which must be IN.
fn is_class(word: Word<'_>) -> Result<bool, Wrong> {
    if word.text.eq_ignore_ascii_case(b"IN") {
        return Ok(true);
    }
    let number = word.text.get(..5).filter(|start| start.eq_ignore_ascii_case(b"CLASS")).map(|_| &word.text[5..]);
    let other = match number {
        Some(b"1") => return Ok(true),
        Some(digits) => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        None => [&b"CH"[..], b"HS", b"CS", b"NONE"].iter().any(|class| class.eq_ignore_ascii_case(word.text)),
    };
    if other {
        let what = format!("class {} is not supported", show(word.text));
        return Err(Wrong::new(word.at, what, "use class IN, or remove the record"));
    }
    Ok(false)
}

fn read_type(word: Word<'_>) -> Result<Rtype, Wrong> {
    // The frequent ones first: the search through all mnemonics takes longer than the rest of a short record.
    let rtype = match word.text {
        b"A" => Rtype::A,
        b"AAAA" => Rtype::AAAA,
        b"CNAME" => Rtype::CNAME,
        b"MX" => Rtype::MX,
        b"NS" => Rtype::NS,
        b"PTR" => Rtype::PTR,
        b"TXT" => Rtype::TXT,
        text => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let what = format!("unknown record type {}", show(text));
            Wrong::new(word.at, what, "use a mnemonic like AAAA, or a number like TYPE65280 (RFC 3597 section 5)")
        })?,
    };
    if rtype.is_meta() {
        let what =
            format!("{rtype} is a meta-type, which exists only in messages, not in zones (RFC 6895 section 3.1)");
        return Err(Wrong::new(word.at, what, "remove the record"));
    }
    Ok(rtype)
}

fn read_ttl(word: Word<'_>) -> Result<Ttl, Wrong> {
    let seconds = rdata::read_ttl(word.text).and_then(|seconds| Ttl::from_secs(seconds).ok());
    seconds.ok_or_else(|| {
        let what = format!("{} is not a TTL from 0 to 2147483647 seconds (RFC 2181 section 8)", show(word.text));
        Wrong::new(word.at, what, "write seconds like 3600, or units like 1h30m")
    })
}

fn argument<'a>(lexer: &mut Lexer<'a>, meaning: &str) -> Result<Word<'a>, Wrong> {
    let word = lexer.word()?;
    word.ok_or_else(|| Wrong::new(lexer.at(), format!("the directive ends too early: expected {meaning}"), "add it"))
}

fn nothing_more(lexer: &mut Lexer<'_>) -> Result<(), Wrong> {
    match lexer.word()? {
        None => Ok(()),
        Some(word) => Err(Wrong::new(
            word.at,
            format!("unexpected {} after the end of the directive", show(word.text)),
            "remove it",
        )),
    }
}
