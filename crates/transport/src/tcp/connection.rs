//! One connection: reads, answers in order, writes, closes. Every wait has a deadline, every buffer a limit.
//!
//! A connection holds memory only for an incomplete message, or for answers that the client does not read; an idle one holds none. While
//! answers wait, nothing is read, so a client that does not read stops only itself.

use std::{
    cell::{Cell, RefCell},
    io,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fairway_zones::{Client, Now, ProvenNetworks, Request, Tally, Transport};
use tokio::{
    io::Interest,
    net::TcpStream,
    sync::Notify,
    time::{Instant, Sleep, sleep_until},
};

use super::{
    CloseReason, TcpSettings,
    frame::{self, Frame},
    table::{Slot, Table},
};
use crate::{Responder, draws::DrawSource, stats::TcpCounters, stop::Phase};

/// Bytes per read; all connections share the buffer.
const READ: usize = 16 << 10;

/// No further message is answered while this many octets of answers wait to be written. One answer may exceed it.
const ANSWERS: usize = 64 << 10;

/// Maximum octets of a message.
const MESSAGE_MAX: usize = u16::MAX as usize;

/// Idle time after which a drain closes a connection. A client that sends one query after another is not cut off between two.
const DRAIN_IDLE: Duration = Duration::from_millis(200);

/// State that all connections of the thread share.
pub(super) struct ThreadState<R> {
    /// Responder and buffers; borrowed only between two waits.
    pub(super) buffers: RefCell<Buffers<R>>,
    /// All connections.
    pub(super) table: RefCell<Table<Rc<Handle>>>,
    /// Current phase of the thread.
    pub(super) phase: Cell<Phase>,
    /// Listeners still open.
    pub(super) listeners: Cell<usize>,
    /// Notified when a listener or the last connection has closed.
    pub(super) closed: Notify,
    /// Counters of queries and answers.
    pub(super) tally: Arc<Tally>,
    /// Counters of the transport.
    pub(super) counters: Arc<TcpCounters>,
    /// Networks of clients, which over UDP have no limit of all networks.
    pub(super) proven: Arc<ProvenNetworks>,
    /// Limits and timeouts.
    pub(super) settings: TcpSettings,
}

impl<R> ThreadState<R> {
    /// Sets the phase and wakes every connection.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.table.borrow().handles().for_each(|handle| handle.wake());
    }

    /// True if no listener and no connection is open.
    pub(super) fn is_done(&self) -> bool {
        self.listeners.get() == 0 && self.table.borrow().is_empty()
    }
}

/// Responder and buffers of the thread.
pub(super) struct Buffers<R> {
    responder: R,
    draws: DrawSource,
    /// Content of the last read.
    read: Box<[u8]>,
    /// Answers with their length fields, not yet passed to the kernel.
    answers: Box<[u8]>,
}

impl<R> Buffers<R> {
    /// Returns the buffers of one thread.
    pub(super) fn new(responder: R) -> Self {
        let answers = vec![0; ANSWERS + frame::LENGTH + MESSAGE_MAX].into();
        Self { responder, draws: DrawSource::new(), read: vec![0; READ].into(), answers }
    }
}

impl<R: Responder> Buffers<R> {
    /// Loads the current serving state, which releases an old one.
    pub(super) fn release_old_state(&mut self) {
        self.responder.serving();
    }
}

/// Slot of a connection in the table, and the signal to it that its state has changed.
#[derive(Debug, Default)]
pub(super) struct Handle {
    slot: Cell<Slot>,
    is_evicted: Cell<bool>,
    changed: Notify,
}

impl Handle {
    /// Makes the connection close.
    pub(super) fn evict(&self) {
        self.is_evicted.set(true);
        self.changed.notify_one();
    }

    /// Makes the connection check the phase.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }
}

/// Adds a new connection and serves it in its own task. Returns true if another connection was evicted for it.
pub(super) fn open<R: Responder>(state: &Rc<ThreadState<R>>, stream: TcpStream, from: SocketAddr) -> bool {
    state.counters.accepted.add(1);
    let handle = Rc::new(Handle::default());
    let (slot, evicted) = state.table.borrow_mut().admit(from.ip(), Rc::clone(&handle));
    if let Some(evicted) = &evicted {
        evicted.evict();
    }
    handle.slot.set(slot);
    let state = Rc::clone(state);
    tokio::task::spawn_local(async move {
        // Dropped also if the task is cancelled or panics, so that every connection is counted.
        let mut registration = Registration { state: &state, handle: Rc::clone(&handle), reason: CloseReason::Stopped };
        let client = Client::new(from.ip(), from.port(), Transport::Tcp);
        registration.reason = Connection::new(&state, stream, client, handle).serve().await;
    });
    evicted.is_some()
}

/// Entry of a connection in the table; counts the reason when it is dropped.
struct Registration<'a, R> {
    state: &'a ThreadState<R>,
    handle: Rc<Handle>,
    reason: CloseReason,
}

impl<R> Drop for Registration<'_, R> {
    fn drop(&mut self) {
        self.state.counters.closed[self.reason as usize].add(1);
        let mut table = self.state.table.borrow_mut();
        table.remove_connection(self.handle.slot.get());
        if table.is_empty() {
            self.state.closed.notify_one();
        }
    }
}

/// One connection.
struct Connection<'a, R> {
    state: &'a ThreadState<R>,
    stream: TcpStream,
    client: Client,
    handle: Rc<Handle>,
    /// Octets read and not yet answered: part of a message, or complete messages while answers wait. At most one message and one read.
    inbox: Vec<u8>,
    /// Answers that the kernel did not accept yet; at most [`ANSWERS`] and one answer.
    outbox: Vec<u8>,
    /// Time of the last query or of the last complete write.
    active: Instant,
    /// Arrival of the first octet of the incomplete message in `inbox`.
    begun: Option<Instant>,
    /// Time when answers began to wait in `outbox`.
    waiting: Option<Instant>,
    /// Reason to close after the remaining answers: the client finished sending, or its stream is broken. Nothing more is read.
    finished: Option<CloseReason>,
    /// True if `inbox` may contain a complete message.
    unanswered: bool,
    timer: Pin<Box<Sleep>>,
}

impl<'a, R: Responder> Connection<'a, R> {
    fn new(state: &'a ThreadState<R>, stream: TcpStream, client: Client, handle: Rc<Handle>) -> Self {
        let now = Instant::now();
        Self {
            state,
            stream,
            client,
            handle,
            inbox: vec![],
            outbox: vec![],
            active: now,
            begun: None,
            waiting: None,
            finished: None,
            unanswered: false,
            timer: Box::pin(sleep_until(now + state.settings.idle)),
        }
    }

    /// Serves until there is a reason to close.
    async fn serve(&mut self) -> CloseReason {
        loop {
            if let Err(close) = self.step().await {
                return close;
            }
        }
    }

    /// Writes waiting answers, or answers waiting messages, or reads.
    async fn step(&mut self) -> Result<(), CloseReason> {
        if !self.outbox.is_empty() {
            self.wait(Interest::WRITABLE).await?;
            return self.write();
        }
        if self.unanswered {
            let (state, inbox) = (self.state, std::mem::take(&mut self.inbox));
            self.answer_and_write(&mut state.buffers.borrow_mut(), Some(inbox), 0)?;
            // Other connections run before the remaining messages of this client.
            tokio::task::yield_now().await;
            return Ok(());
        }
        if let Some(close) = self.finished {
            return Err(close);
        }
        self.wait(Interest::READABLE).await?;
        if self.read()? {
            // A full read: there may be more, but other connections run first.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Waits for the stream, the deadline, or an eviction.
    async fn wait(&mut self, interest: Interest) -> Result<(), CloseReason> {
        loop {
            if self.handle.is_evicted.get() {
                return Err(CloseReason::Evicted);
            }
            if self.client.port == 0 || self.state.phase.get() == Phase::End {
                return Err(CloseReason::Stopped);
            }
            let (due, close) = self.deadline();
            // Resetting a timer costs, so it is reset only if it would fire too late or has fired, not at each message.
            if self.timer.deadline() > due || self.timer.is_elapsed() {
                self.timer.as_mut().reset(due);
            }
            tokio::select! {
                biased;
                () = self.handle.changed.notified() => {}
                ready = self.stream.ready(interest) => return ready.map(drop).map_err(|_| CloseReason::Error),
                () = self.timer.as_mut() => if Instant::now() >= due { return Err(close) },
            }
        }
    }

    /// Returns the deadline of the current wait, and the reason to close when it passes.
    fn deadline(&self) -> (Instant, CloseReason) {
        let settings = &self.state.settings;
        if let Some(since) = self.waiting {
            return (since + settings.write, CloseReason::SlowReader);
        }
        if let Some(since) = self.begun {
            return (since + settings.message, CloseReason::SlowMessage);
        }
        if self.state.phase.get() == Phase::Drain {
            return (self.active + settings.idle.min(DRAIN_IDLE), CloseReason::Stopped);
        }
        (self.active + settings.idle, CloseReason::Idle)
    }

    /// Reads once and answers complete messages. Returns true if there may be more to read.
    fn read(&mut self) -> Result<bool, CloseReason> {
        let state = self.state;
        let buffers = &mut *state.buffers.borrow_mut();
        let count = match self.stream.try_read(&mut buffers.read) {
            Ok(0) => {
                // Half-closed: all complete queries were answered, and an incomplete one will never be complete.
                self.finished = Some(CloseReason::Client);
                return Ok(false);
            }
            Ok(count) => count,
            Err(error) if would_block(&error) => return Ok(false),
            Err(_) => return Err(CloseReason::Error),
        };
        let inbox = if self.inbox.is_empty() {
            None
        } else {
            self.inbox.extend_from_slice(&buffers.read[..count]);
            Some(std::mem::take(&mut self.inbox))
        };
        self.answer_and_write(buffers, inbox, count)?;
        Ok(count == READ)
    }

    /// Answers complete messages in `inbox`, or in the `count` octets just read if it is `None`, and writes as much as the kernel accepts.
    /// Keeps the rest of both.
    fn answer_and_write(
        &mut self,
        buffers: &mut Buffers<R>,
        inbox: Option<Vec<u8>>,
        count: usize,
    ) -> Result<(), CloseReason> {
        let Buffers { responder, draws, read, answers } = buffers;
        let stream = inbox.as_deref().unwrap_or(&read[..count]);
        let serving = responder.serving();
        let now = Now(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
        let (mut taken, mut filled, mut messages) = (0, 0, 0);
        self.unanswered = false;
        loop {
            let message = match frame::first(&stream[taken..]) {
                Frame::Message(message) => message,
                Frame::Incomplete => break,
                Frame::Broken => {
                    self.finished = Some(CloseReason::Length);
                    taken = stream.len();
                    break;
                }
            };
            if filled >= ANSWERS {
                self.unanswered = true;
                break;
            }
            let out = &mut answers[filled + frame::LENGTH..][..MESSAGE_MAX];
            let request = Request { client: &self.client, packet: message, now, draw: draws.next() };
            let outcome = R::respond(serving, &request, &self.state.tally, out);
            if let Some(length) = outcome.length() {
                let length = u16::try_from(length).expect("an answer fits its buffer of 65,535 octets");
                answers[filled..][..frame::LENGTH].copy_from_slice(&length.to_be_bytes());
                filled += frame::LENGTH + usize::from(length);
            }
            taken += frame::LENGTH + message.len();
            messages += 1;
        }
        if messages > 0 {
            R::prove(serving, self.client.address, &self.state.proven, now);
        }
        let rest = stream.len() - taken;
        self.inbox = match inbox {
            _ if rest == 0 => vec![],
            Some(mut inbox) => {
                inbox.drain(..taken);
                inbox
            }
            None => read[taken..count].to_vec(),
        };
        self.record(messages, rest);
        self.write_first(&answers[..filled])
    }

    /// Updates times and counters after `messages` messages, with `rest` octets of the next one left.
    fn record(&mut self, messages: u64, rest: usize) {
        if messages > 0 {
            self.active = Instant::now();
            self.state.counters.messages.add(messages);
            let slot = self.state.table.borrow_mut().touch(self.handle.slot.get());
            self.handle.slot.set(slot);
        }
        if rest == 0 || self.unanswered {
            self.begun = None;
        } else if messages > 0 || self.begun.is_none() {
            self.begun = Some(Instant::now());
        }
    }

    /// Writes new answers; keeps what the kernel does not accept.
    fn write_first(&mut self, answers: &[u8]) -> Result<(), CloseReason> {
        let written = self.try_write(answers)?;
        if written < answers.len() {
            self.outbox = answers[written..].to_vec();
            self.waiting = Some(Instant::now());
        }
        Ok(())
    }

    /// Writes more of the waiting answers. The write deadline stays the same until all are written: a client that reads an octet now and
    /// then does not extend it.
    fn write(&mut self) -> Result<(), CloseReason> {
        let written = self.try_write(&self.outbox)?;
        self.outbox.drain(..written);
        if self.outbox.is_empty() {
            self.outbox = vec![];
            self.waiting = None;
            self.active = Instant::now();
        }
        Ok(())
    }

    /// Writes as much as the kernel accepts. Returns the number of octets.
    fn try_write(&self, octets: &[u8]) -> Result<usize, CloseReason> {
        let mut written = 0;
        while written < octets.len() {
            match self.stream.try_write(&octets[written..]) {
                Ok(count) => written += count,
                Err(error) if would_block(&error) => break,
                Err(_) => return Err(CloseReason::Error),
            }
        }
        Ok(written)
    }
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
