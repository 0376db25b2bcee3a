//! Reads the lines of a zone file: owners, TTLs, classes, directives (RFC 1035 section 5, RFC 2308 section 4).

use std::sync::Arc;

use fairway_model::{Diagnostic, FileLocation, Name, Rtype, Ttl};

use super::{
    Include, Record, ZoneData,
    diagnostics::{Diagnostics, TextError, show},
    lexer::{Begin, Lexer, Word},
    rdata,
};

/// Maximum depth of nested includes, to stop cycles that path comparison misses.
const DEPTH_MAX: usize = 10;
/// Maximum number of includes of a zone. With the depth it bounds the work that a few lines can cause.
const INCLUSIONS_MAX: usize = 4_096;
/// Maximum octets of all texts of a zone in total, so that includes cannot fill the memory: 2 GiB.
const OCTETS_MAX: usize = 2 << 30;

/// Reads one zone.
pub(super) struct Reader<'i> {
    zone: ZoneData,
    diagnostics: Diagnostics,
    include: Include<'i>,
    /// Value of the last $TTL, or the SOA minimum if no TTL was given before the SOA.
    default_ttl: Option<Ttl>,
    /// TTL of the last record that states one.
    last_ttl: Option<Ttl>,
    /// Indices of the open files; each includes the next.
    open: Vec<u16>,
    /// Number of includes so far.
    inclusions: usize,
    /// Remaining octets of [`OCTETS_MAX`].
    octets_left: usize,
    /// Number of records produced by $GENERATE so far.
    pub(super) generated: usize,
    /// Octets of text produced by $GENERATE so far.
    pub(super) generated_octets: usize,
    /// Buffer for RDATA, kept to reuse its memory.
    rdata: Vec<u8>,
}

/// State of one text; at its end the state of the including text applies again (RFC 1035 section 5.1).
#[derive(Clone)]
pub(super) struct Frame {
    pub(super) file: u16,
    /// Origin of relative names.
    pub(super) origin: Name,
    /// Last owner in wire form; empty if there is none yet.
    pub(super) owner: Vec<u8>,
    /// Line of the $GENERATE directive, for generated text.
    pub(super) line: Option<u32>,
}

impl<'i> Reader<'i> {
    pub(super) fn new(origin: &Name, path: &str, include: Include<'i>) -> Self {
        Self {
            zone: ZoneData { origin: origin.clone(), records: vec![], files: vec![path.into()] },
            diagnostics: Diagnostics::default(),
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

    /// Reads the zone file. Returns the zone and the diagnostics.
    pub(super) fn read(mut self, text: &[u8]) -> (ZoneData, Vec<Diagnostic>) {
        let origin = self.zone.origin.clone();
        self.text(text, Frame { file: 0, origin, owner: vec![], line: None });
        let place = FileLocation { file: Arc::clone(&self.zone.files[0]), line: 0, column: 0 };
        (self.zone, self.diagnostics.finish(place))
    }

    /// Reads one text to its end, even after errors.
    fn text(&mut self, text: &[u8], mut frame: Frame) {
        if text.len() > self.octets_left {
            let place =
                FileLocation { file: Arc::clone(&self.zone.files[usize::from(frame.file)]), line: 0, column: 0 };
            self.diagnostics.add(Diagnostic::error(
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
        if !text.is_empty() && !text.ends_with(b"\n") {
            // A text truncated in its last record may still be valid: 192.0.2.15 instead of 192.0.2.150.
            let place = self.location(&lexer, &frame, text.len());
            let fact = "the file does not end with a line break; it may be truncated";
            self.diagnostics.add(Diagnostic::error(place, fact, "complete the last line and end it with a line break"));
        }
        self.open.pop();
    }

    /// Reads lines until the text ends. Returns true if there was no error.
    pub(super) fn lines(&mut self, lexer: &mut Lexer<'_>, frame: &mut Frame) -> bool {
        let mut is_valid = true;
        loop {
            let begin = lexer.begin();
            if begin == Begin::End {
                return is_valid;
            }
            let read = self.line(begin, lexer, frame);
            // After an error, skips the rest of the record. Without an error only the line break is left.
            for error in [read.err(), lexer.skip_record().err()].into_iter().flatten() {
                is_valid = false;
                let place = self.location(lexer, frame, error.at);
                self.diagnostics.add(Diagnostic::error(place, error.fact, error.hint));
            }
        }
    }

    fn line(&mut self, begin: Begin, lexer: &mut Lexer<'_>, frame: &mut Frame) -> Result<(), TextError> {
        let line = frame.line.unwrap_or_else(|| lexer.line());
        if begin == Begin::Owner {
            // Empty parentheses are the same as an empty line.
            let Some(word) = lexer.word()? else { return Ok(()) };
            if word.text.starts_with(b"$") && !word.quoted {
                return self.directive(word, lexer, frame);
            }
            frame.owner.clear();
            if word.quoted {
                return Err(TextError::new(word.at, "a domain name must not be quoted", "remove the quotes"));
            }
            if let Err(error) = rdata::read_name(word.text, &frame.origin, &mut frame.owner) {
                frame.owner.clear();
                return Err(rdata::name_error(word, error));
            }
        }
        let Some(first) = lexer.word()? else {
            if begin == Begin::Blank {
                return Ok(());
            }
            return Err(TextError::new(lexer.at(), "the record ends after the owner name", "add a type and data"));
        };
        self.record(line, first, lexer, frame)
    }

    /// Reads a record from the word after its owner.
    fn record<'a>(
        &mut self,
        line: u32,
        first: Word<'a>,
        lexer: &mut Lexer<'a>,
        frame: &Frame,
    ) -> Result<(), TextError> {
        let (stated_ttl, type_word, rtype) = header(first, lexer)?;
        self.rdata.clear();
        rdata::read(rtype, lexer, &frame.origin, &mut self.rdata)?;
        let ttl = match stated_ttl.or(self.default_ttl).or(self.last_ttl) {
            Some(ttl) => ttl,
            None => self.ttl_of_soa(type_word, rtype, lexer, frame)?,
        };
        self.last_ttl = stated_ttl.or(self.last_ttl);
        if frame.owner.is_empty() {
            let fact = "the line begins with a blank, but no record before it has an owner name";
            return Err(TextError::new(first.at, fact, "begin the line with a domain name"));
        }
        let owner = Name::from_wire(&frame.owner).map_err(|e| TextError::new(first.at, e.to_string(), ""))?;
        if !owner.is_within(&self.zone.origin) {
            let fact = format!("{owner} is outside the zone {}; the record is ignored", self.zone.origin);
            self.warn(lexer, frame, TextError::new(first.at, fact, "remove it, or check the name and $ORIGIN"));
            return Ok(());
        }
        let rdata = self.rdata.as_slice().into();
        self.zone.records.push(Record { owner, rtype, ttl, rdata, file: frame.file, line });
        Ok(())
    }

    /// Returns the minimum of an SOA, which becomes the default TTL if no TTL was given before.
    fn ttl_of_soa(&mut self, word: Word<'_>, rtype: Rtype, lexer: &Lexer<'_>, frame: &Frame) -> Result<Ttl, TextError> {
        let minimum = self.rdata.last_chunk::<4>().filter(|_| rtype == Rtype::SOA);
        let minimum = minimum.and_then(|octets| Ttl::from_secs(u32::from_be_bytes(*octets)).ok());
        let Some(ttl) = minimum else {
            return Err(TextError::new(
                word.at,
                "the record has no TTL, and neither $TTL nor an earlier record sets one",
                "begin the file with $TTL 1h",
            ));
        };
        self.default_ttl = Some(ttl);
        let fact = format!("no TTL is given; the SOA minimum, {ttl}, applies");
        self.warn(lexer, frame, TextError::new(word.at, fact, "begin the file with $TTL 1h"));
        Ok(ttl)
    }

    fn directive(&mut self, word: Word<'_>, lexer: &mut Lexer<'_>, frame: &mut Frame) -> Result<(), TextError> {
        match word.text.to_ascii_uppercase().as_slice() {
            b"$ORIGIN" => {
                frame.origin = read_origin(argument(lexer, "a domain name")?, &frame.origin)?;
            }
            b"$TTL" => {
                let word = argument(lexer, "a TTL like 3600 or 1h")?;
                self.default_ttl = Some(read_ttl(word)?);
            }
            b"$INCLUDE" => return self.inclusion(lexer, frame),
            b"$GENERATE" if frame.line.is_none() => return self.generate(lexer, frame),
            _ => {
                let fact = format!("{} is not a supported directive", show(word.text));
                return Err(TextError::new(word.at, fact, "use $ORIGIN, $TTL, $INCLUDE or $GENERATE"));
            }
        }
        nothing_more(lexer)
    }

    /// `$INCLUDE FILE [ORIGIN]`.
    fn inclusion(&mut self, lexer: &mut Lexer<'_>, frame: &Frame) -> Result<(), TextError> {
        let file = argument(lexer, "the path of a file")?;
        let path = std::str::from_utf8(file.text)
            .map_err(|_| TextError::new(file.at, "the path is not valid UTF-8", "rename the file"))?;
        let mut origin = frame.origin.clone();
        if let Some(word) = lexer.word()? {
            origin = read_origin(word, &frame.origin)?;
            nothing_more(lexer)?;
        }
        let refuse = |fact: &str, hint: &'static str| {
            Err(TextError::new(file.at, format!("cannot include {}: {fact}", show(file.text)), hint))
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
        // Fits: at most one file per include, of which there are at most 4,096.
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        self.text(&text, Frame { file: index, origin, owner: frame.owner.clone(), line: None });
        Ok(())
    }

    /// True if a path after $INCLUDE is this file. The zone file is also known by its file name, because relative paths start at its
    /// folder. Cycles that this misses end at the maximum depth.
    fn is_file(&self, file: u16, path: &str) -> bool {
        let known = &*self.zone.files[usize::from(file)];
        known == path || (file == 0 && known.rsplit_once('/').is_some_and(|(_, bare)| bare == path))
    }

    fn location(&self, lexer: &Lexer<'_>, frame: &Frame, at: usize) -> FileLocation {
        let file = Arc::clone(&self.zone.files[usize::from(frame.file)]);
        let (line, column) = match frame.line {
            Some(line) => (line, 1),
            None => lexer.position(at),
        };
        FileLocation { file, line, column }
    }

    fn warn(&mut self, lexer: &Lexer<'_>, frame: &Frame, warning: TextError) {
        let place = self.location(lexer, frame, warning.at);
        self.diagnostics.add(Diagnostic::warning(place, warning.fact, warning.hint));
    }
}

/// Reads TTL and class in either order, each at most once, then the type.
fn header<'a>(first: Word<'a>, lexer: &mut Lexer<'a>) -> Result<(Option<Ttl>, Word<'a>, Rtype), TextError> {
    let mut word = first;
    let mut ttl = None;
    let mut class_seen = false;
    loop {
        if word.quoted {
            return Err(TextError::new(word.at, "expected a record type, found a quoted string", "remove the quotes"));
        }
        if word.text.first().is_some_and(u8::is_ascii_digit) && ttl.is_none() {
            ttl = Some(read_ttl(word)?);
        } else if !class_seen && is_class(word)? {
            class_seen = true;
        } else {
            return read_type(word).map(|rtype| (ttl, word, rtype));
        }
        word = lexer
            .word()?
            .ok_or_else(|| TextError::new(lexer.at(), "the record ends before its type", "complete it"))?;
    }
}

/// True if a word is class IN, false if it is no class. Any other class is an error.
fn is_class(word: Word<'_>) -> Result<bool, TextError> {
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
        let fact = format!("class {} is not supported", show(word.text));
        return Err(TextError::new(word.at, fact, "use class IN, or remove the record"));
    }
    Ok(false)
}

fn read_type(word: Word<'_>) -> Result<Rtype, TextError> {
    // Frequent types first: searching all mnemonics takes longer than reading the rest of a short record.
    let rtype = match word.text {
        b"A" => Rtype::A,
        b"AAAA" => Rtype::AAAA,
        b"CNAME" => Rtype::CNAME,
        b"MX" => Rtype::MX,
        b"NS" => Rtype::NS,
        b"PTR" => Rtype::PTR,
        b"TXT" => Rtype::TXT,
        text => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let fact = format!("unknown record type {}", show(text));
            TextError::new(word.at, fact, "use a mnemonic like AAAA, or a number like TYPE65280 (RFC 3597 section 5)")
        })?,
    };
    if rtype.is_meta() {
        let fact =
            format!("{rtype} is a meta-type, which exists only in messages, not in zones (RFC 6895 section 3.1)");
        return Err(TextError::new(word.at, fact, "remove the record"));
    }
    Ok(rtype)
}

/// Reads the name after $ORIGIN, or after the file of $INCLUDE.
fn read_origin(word: Word<'_>, origin: &Name) -> Result<Name, TextError> {
    Name::from_text(word.text, Some(origin)).map_err(|error| rdata::name_error(word, error))
}

fn read_ttl(word: Word<'_>) -> Result<Ttl, TextError> {
    let seconds = rdata::read_ttl(word.text).and_then(|seconds| Ttl::from_secs(seconds).ok());
    seconds.ok_or_else(|| {
        let fact = format!("{} is not a TTL from 0 to 2147483647 seconds (RFC 2181 section 8)", show(word.text));
        TextError::new(word.at, fact, "write seconds like 3600, or units like 1h30m")
    })
}

fn argument<'a>(lexer: &mut Lexer<'a>, meaning: &str) -> Result<Word<'a>, TextError> {
    let word = lexer.word()?;
    word.ok_or_else(|| {
        TextError::new(lexer.at(), format!("the directive ends too early: expected {meaning}"), "add it")
    })
}

fn nothing_more(lexer: &mut Lexer<'_>) -> Result<(), TextError> {
    match lexer.word()? {
        None => Ok(()),
        Some(word) => Err(TextError::new(
            word.at,
            format!("unexpected {} after the end of the directive", show(word.text)),
            "remove it",
        )),
    }
}
