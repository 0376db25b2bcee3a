//! Questions about the server itself, in class CH (RFC 4892).

use fairway_model::Rtype;

use super::{AnswerStatus, Response};
use crate::wire::{Rcode, Section, Writer};

impl Response<'_> {
    /// Answers the configured names. All others in this class are refused.
    pub(super) fn chaos(&self, writer: &mut Writer<'_>) -> AnswerStatus {
        let identity = &self.serving.snapshot.options.identity;
        let name = self.query.name(self.packet);
        let is_one_of = |names: [&[u8]; 2]| names.iter().any(|one| name.eq_ignore_ascii_case(one));
        let text = if is_one_of([b"\x07version\x04bind\x00", b"\x07version\x06server\x00"]) {
            identity.version.as_deref()
        } else if is_one_of([b"\x08hostname\x04bind\x00", b"\x02id\x06server\x00"]) {
            identity.id.as_deref()
        } else {
            None
        };
        let Some(text) = text else { return AnswerStatus::of(Rcode::REFUSED) };
        writer.set_authoritative();
        if !matches!(self.query.rtype, Rtype::TXT | Rtype::ANY) {
            return AnswerStatus::of(Rcode::NOERROR);
        }
        let text = &text.as_bytes()[..text.len().min(255)];
        let length = text.len() as u8;
        // Owner: the question's name; type TXT, class CH, TTL 0.
        let head = [0xc0, 12, 0, 16, 0, 3, 0, 0, 0, 0, 0, 0, length];
        let start = writer.at();
        if writer.copy(&head).and_then(|_| writer.copy(text)).is_err() {
            writer.truncate(start);
            return AnswerStatus::of(Rcode::NOERROR);
        }
        writer.patch(start + 10, u16::from(length) + 1);
        writer.count(Section::Answer, 1);
        AnswerStatus::of(Rcode::NOERROR)
    }
}
