//! Why a steered name is answered as it is, in one line of the answer itself: an extended error (RFC 8914) of code 0, for
//! those who may ask for explanations and speak EDNS.
//!
//! It is the last thing that is written: where the answer leaves too little room, it is left out. The text has a fixed bound and
//! is made without allocating.

use std::fmt::{self, Write};

use fairway_model::{AnswerMode, Rtype};

use super::{AnswerStatus, Response};
use crate::{
    steer::{Kind, SteerPool},
    wire::{Edns, Opt, Writer},
};

impl<'a> Response<'a> {
    /// Whether who asks is told. Where nobody is, this is never asked.
    pub(super) fn is_noted(&self) -> bool {
        self.query.edns.is_some() && self.may_explain()
    }

    /// Writes OPT with the note, as far as there is room for it behind the answer.
    #[cold]
    #[inline(never)]
    pub(super) fn noted_opt(&self, writer: &mut Writer<'_>, edns: &'a Edns, status: &AnswerStatus, limit: usize) {
        let opt = self.opt(edns, limit).of(status);
        let text = self.note(status);
        let opt = match text.octets() {
            note if writer.at() + opt.len() + note.len() <= limit => Opt { note, ..opt },
            _ => Opt { error: opt.error.filter(|code| *code != OTHER), ..opt },
        };
        opt.write(writer, status.rcode);
    }

    /// `snapshot …, runtime …; class 3 of 12, client 203.0.113.0/24, scope 24; pool shop: live members: eu1`
    fn note(&self, status: &AnswerStatus) -> Text {
        let mut text = Text { octets: [0; TEXT_MAX], length: 0 };
        let pool = status.noted.checked_sub(1).and_then(|number| self.serving.snapshot.pools.get(number as usize));
        if let Some(pool) = pool {
            // What does not fit is cut off: the text is for people.
            let _ = self.write_note(&mut text, pool, status.scope);
        }
        text
    }

    fn write_note(&self, text: &mut Text, pool: &SteerPool, scope: u8) -> fmt::Result {
        let kind = match (pool.mode(), self.query.rtype) {
            (AnswerMode::Cname, _) => Kind::Cname,
            (_, Rtype::AAAA) => Kind::V6,
            _ => Kind::V4,
        };
        let (client, _) = self.client_of(pool);
        let choice = pool.choose(kind, &self.serving.runtime, client, self.draw, &mut ());
        write!(
            text,
            "snapshot {:016x}, runtime state {:016x}; ",
            self.serving.snapshot.id(),
            self.serving.runtime.id()
        )?;
        let (class, classes) = (client.class(), pool.place(client).classes);
        write!(text, "location class {class} of {classes}, client {client}, scope {scope}; ")?;
        write!(text, "pool {}: {}", pool.name(), choice.basis)?;
        for (at, cluster) in
            choice.members.as_slice().iter().filter_map(|n| pool.clusters().nth((*n).into())).enumerate()
        {
            write!(text, "{} {cluster}", if at == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

/// A text of bounded length.
struct Text {
    octets: [u8; TEXT_MAX],
    length: usize,
}

impl Text {
    fn octets(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}

impl Write for Text {
    /// Cuts off what does not fit, at the end of a character, and says so.
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let most = more.floor_char_boundary(TEXT_MAX - self.length);
        self.octets[self.length..self.length + most].copy_from_slice(&more.as_bytes()[..most]);
        self.length += most;
        if most == more.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// "Other Error" (RFC 8914 section 4.1): what is told is in the text.
pub(super) const OTHER: u16 = 0;
/// Holds ids, row, client and scope, the longest name of a pool and those of two clusters.
const TEXT_MAX: usize = 320;
