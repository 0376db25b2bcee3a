//! An explanation of a steered answer in the response itself: the text of an extended error (RFC 8914) with code 0.
//!
//! It goes to clients that may get explanations and use EDNS. It is written last and omitted if it does not fit. The
//! text has a fixed maximum and is made without allocation.

use std::fmt::{self, Write};

use fairway_model::{AnswerMode, Rtype};

use super::{AnswerStatus, Response};
use crate::{
    steer::{Kind, SteerPool},
    wire::{Edns, Opt, Writer},
};

impl<'a> Response<'a> {
    /// True if the client gets the explanation. Not called if no network is allowed.
    pub(super) fn is_noted(&self) -> bool {
        self.query.edns.is_some() && self.may_explain()
    }

    /// Writes OPT, with the note if it fits.
    #[cold]
    #[inline(never)]
    pub(super) fn noted_opt(&self, writer: &mut Writer<'_>, edns: &'a Edns, status: &AnswerStatus, limit: usize) {
        let opt = Opt { scope: status.scope, error: status.error, ..self.opt(edns, limit) };
        let text = self.note(status);
        let opt = match text.octets() {
            note if writer.at() + opt.len() + note.len() <= limit => Opt { note, ..opt },
            _ => Opt { error: opt.error.filter(|code| *code != OTHER), ..opt },
        };
        opt.write(writer, status.rcode);
    }

    /// Returns a text such as `snapshot …, runtime state …; location class 3 of 12, client 203.0.113.0/24, scope 24;
    /// pool shop: live members: eu1`.
    fn note(&self, status: &AnswerStatus) -> Text {
        let mut text = Text { octets: [0; TEXT_MAX], length: 0 };
        let pool = status.noted.checked_sub(1).and_then(|number| self.serving.snapshot.pools.get(number as usize));
        if let Some(pool) = pool {
            // The text is for people, so it may be cut.
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
        let (class, classes) = (client.class(), pool.location_class(client).classes);
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
    /// Cuts off what does not fit, at a character boundary, and returns an error then.
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let most = more.floor_char_boundary(TEXT_MAX - self.length);
        self.octets[self.length..self.length + most].copy_from_slice(&more.as_bytes()[..most]);
        self.length += most;
        if most == more.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Code "Other Error" (RFC 8914 section 4.1).
pub(super) const OTHER: u16 = 0;
/// Fits ids, class, client and scope, the longest pool name and two cluster names.
const TEXT_MAX: usize = 320;
