//! What the control task is told to do, and how it does it.

use std::{
    hash::{BuildHasher, RandomState},
    ops::ControlFlow,
    sync::Arc,
};

use fairway_model::Override;
use fairway_telemetry::logs::Trace;
use tokio::sync::oneshot;

use super::{
    ControlError,
    actor::Actor,
    book::{Book, held_by},
    configured::What,
    trial::{Attempt, Tried},
    uses::Uses,
};
use fairway_api_types::state_wire::{OverrideState, ReloadReport};
use fairway_store::{DataFolder, Leadership, SavedOverride};

/// What asks for a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// SIGHUP.
    Signal,
    /// Files that changed.
    Files,
    /// `fairway reload`, or a call of [`Control::reload`](crate::Control::reload).
    Command,
    /// Declared objects that changed.
    Api,
    /// Leases of the webhook that ran out, or were renewed.
    Webhook,
}

impl Trigger {
    /// The word for logs and status.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Files => "files",
            Self::Command => "command",
            Self::Api => "api",
            Self::Webhook => "webhook",
        }
    }
}

/// One command to the control task.
#[derive(Debug)]
pub enum Command {
    /// Read the configuration anew.
    Reload {
        /// What is to be read.
        what: What,
        /// What asks.
        asked_by: Trigger,
        /// Who wants to hear what becomes of it.
        reply: Option<oneshot::Sender<ReloadReport>>,
    },
    /// Add an override; of a request that may be sent again with the id that follows from it.
    AddOverride(Override, Option<String>, oneshot::Sender<Result<OverrideState, ControlError>>),
    /// Remove an override given by command.
    RemoveOverride(String, oneshot::Sender<Result<OverrideState, ControlError>>),
    /// Tell what would become of these objects.
    TryObjects(Box<Attempt>, oneshot::Sender<Tried>),
    /// Keep state in this folder from now on: the process that had it has let go.
    Adopt(Arc<DataFolder>),
    /// Go by what is on the board of those that share the store.
    Leadership(Leadership),
    /// Tell when every flip that came before this command is in the answers.
    Settle(oneshot::Sender<()>),
    /// Keep what must be kept, and end.
    End,
}

impl Actor {
    /// Does what it is told; breaks when told to end. A caller that has gone away needs no answer.
    pub async fn carry_out(&mut self, command: Command) -> ControlFlow<()> {
        match command {
            Command::Reload { what, asked_by, reply } => self.ask_reading(what, asked_by, reply),
            Command::AddOverride(new, id, reply) => drop(reply.send(self.add_override(new, id).await)),
            Command::RemoveOverride(id, reply) => drop(reply.send(self.remove_override(&id).await)),
            Command::TryObjects(attempt, reply) => self.try_objects(*attempt, reply),
            Command::Adopt(folder) => self.adopt(folder),
            Command::Leadership(posted) => self.take_posted(&posted),
            // Flips are always taken before commands, so there is none left.
            Command::Settle(reply) => drop(reply.send(())),
            Command::End => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    async fn add_override(&mut self, said: Override, id: Option<String>) -> Result<OverrideState, ControlError> {
        let book = self.shared.serving.published().book.clone();
        if let Some(before) = id.as_ref().and_then(|id| book.kept().iter().find(|kept| key_of(&kept.id) == key_of(id)))
        {
            let published = self.shared.serving.published();
            return match Some(&before.id) == id.as_ref() {
                true => Ok(shown(Some(&before.id), &before.value, &published.configured.uses)),
                false => Err(ControlError::KeyOfAnother),
            };
        }
        let new = SavedOverride { id: id.unwrap_or_else(|| new_id(&book)), value: said };
        let next = book.with(new.clone()).ok_or(ControlError::TooManyOverrides)?;
        let trace = Trace::new();
        self.keep_overrides(&next, trace).await?;
        self.publish(|published| published.book = next);
        self.apply_force();
        let published = self.shared.serving.published();
        let state = shown(Some(&new.id), &new.value, &published.configured.uses);
        let OverrideState { scope, action, reason, expires, .. } = &state;
        let addresses = state.addresses.join(",");
        trace.of(|| tracing::warn!(id = new.id, scope, action, reason, expires, addresses, "override added"));
        Ok(state)
    }

    async fn remove_override(&mut self, id: &str) -> Result<OverrideState, ControlError> {
        let book = self.shared.serving.published().book.clone();
        let (next, gone) = book.without(id).ok_or_else(|| ControlError::NoSuchOverride(id.to_owned()))?;
        let trace = Trace::new();
        self.keep_overrides(&next, trace).await?;
        self.publish(|published| published.book = next);
        self.apply_force();
        let published = self.shared.serving.published();
        let state = shown(Some(&gone.id), &gone.value, &published.configured.uses);
        trace.of(|| tracing::warn!(id, scope = state.scope, action = state.action, "override removed"));
        Ok(state)
    }

    /// Ends the overrides whose time has come. The file follows when it can: what has ended is also ended in it.
    pub async fn end_overrides(&mut self) {
        let now = (self.clock)();
        if self.shared.serving.published().book.next_end().is_none_or(|end| end > now) {
            return;
        }
        let mut book = self.shared.serving.published().book.clone();
        let trace = Trace::new();
        for (id, said) in book.expire(now) {
            let id = id.unwrap_or_default();
            trace.of(|| {
                tracing::warn!(id, scope = %said.scope, action = %said.action, reason = said.reason, "override expired");
            });
        }
        self.publish(|published| published.book = book.clone());
        self.apply_force();
        // A failure is logged where it happens; an ended override in the file is dropped when it is read.
        let _ = self.keep_overrides(&book, trace).await;
    }

    /// Takes the data folder of the process before. What operators forced there to the last counts here too.
    fn adopt(&mut self, folder: Arc<DataFolder>) {
        let declared = self.shared.serving.published().configured.overrides.clone();
        let mut book = Book::new(declared, folder.read_overrides());
        // What has ended is told by the process in which it ended.
        book.expire((self.clock)());
        self.publish(|published| published.book = book);
        self.apply_force();
        self.keeper.adopt(folder);
    }

    async fn keep_overrides(&mut self, book: &Book, trace: Trace) -> Result<(), ControlError> {
        let writing = self.keeper.write_overrides(book.kept().to_vec());
        let outcome = self.during(writing).await;
        let shared = Arc::clone(&self.shared);
        trace.of(|| self.keeper.note(&shared, &outcome));
        outcome.map_err(|error| ControlError::NotKept(error.to_string()))
    }
}

/// An override as the API shows it.
pub fn shown(id: Option<&str>, said: &Override, uses: &Uses) -> OverrideState {
    OverrideState {
        id: id.map(str::to_owned),
        source: if id.is_some() { "command" } else { "config" }.to_owned(),
        scope: said.scope.to_string(),
        action: said.action.to_string(),
        reason: said.reason.clone(),
        expires: said.expires.to_string(),
        addresses: held_by(said, uses),
    }
}

/// What of an id follows from the key of the request; all of one that was drawn.
fn key_of(id: &str) -> &str {
    id.split_once('-').map_or(id, |(key, _)| key)
}

/// An id that no override in the book has: short enough to type.
fn new_id(book: &Book) -> String {
    loop {
        let id = format!("{:06x}", RandomState::new().hash_one(book.kept().len()) & 0xff_ffff);
        if book.kept().iter().all(|kept| kept.id != id) {
            return id;
        }
    }
}
