//! One connection: read, answer in order, write, close. Every wait has a deadline, every buffer a bound.
//!
//! A connection holds memory only for part of a message, or for answers that the client does not take; an idle one holds
//! none. While answers wait, nothing is read, so a client that does not read stops only itself.

use std::{
    cell::{Cell, RefCell},
    io,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fairway_zones::{Client, Now, Outcome, Request, Tally, Transport};
use tokio::{
    net::TcpStream,
    sync::Notify,
    time::{Instant, Sleep, sleep_until},
};

use super::{
    Close, TcpSettings,
    frame::{self, Frame},
    table::{Seat, Table},
};
use crate::{Responder, draws::Draws, stats::TcpCounters, stop::Phase};

/// Octets read at a time, into a buffer that all connections share.
const READ: usize = 16 << 10;

/// No further message is answered while so many octets of answers wait to be written; one answer may exceed it.
const ANSWERS: usize = 64 << 10;

/// Octets of the longest message.
const MESSAGE_MAX: usize = u16::MAX as usize;

/// A drain closes a connection that has been idle for this long: a client that asks one query after another is not cut off
/// between two.
const DRAIN_IDLE: Duration = Duration::from_millis(200);

/// What all connections of the thread share.
pub(super) struct Desk<R> {
    /// Buffers and what answers; borrowed only between two waits.
    pub(super) work: RefCell<Work<R>>,
    /// Who is connected.
    pub(super) table: RefCell<Table<Rc<Handle>>>,
    /// What the thread is to do.
    pub(super) phase: Cell<Phase>,
    /// Listeners still open.
    pub(super) listeners: Cell<usize>,
    /// Told when a listener has closed or the last connection has left.
    pub(super) less: Notify,
    /// Counters of what was asked and answered.
    pub(super) tally: Arc<Tally>,
    /// Counters of the transport.
    pub(super) counters: Arc<TcpCounters>,
    /// The bounds.
    pub(super) settings: TcpSettings,
}

impl<R> Desk<R> {
    /// Sets the phase and lets every connection look at it.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.table.borrow().handles().for_each(|handle| handle.wake());
    }

    /// Whether there is nothing left to serve.
    pub(super) fn is_done(&self) -> bool {
        self.listeners.get() == 0 && self.table.borrow().is_empty()
    }
}

/// Buffers of the thread, and what answers.
pub(super) struct Work<R> {
    responder: R,
    draws: Draws,
    /// What was read last.
    read: Box<[u8]>,
    /// Answers with their lengths, written in place, not yet handed to the kernel.
    answers: Box<[u8]>,
}

impl<R> Work<R> {
    /// Buffers for one thread.
    pub(super) fn new(responder: R) -> Self {
        let answers = vec![0; ANSWERS + frame::LENGTH + MESSAGE_MAX].into();
        Self { responder, draws: Draws::new(), read: vec![0; READ].into(), answers }
    }
}

impl<R: Responder> Work<R> {
    /// Lets go of what was answered from last, if that is of the past.
    pub(super) fn let_go(&mut self) {
        self.responder.serving();
    }
}

/// How a connection is told from outside that something has changed for it.
#[derive(Debug, Default)]
pub(super) struct Handle {
    close: Cell<bool>,
    told: Notify,
}

impl Handle {
    /// Tells the connection to give up its place.
    pub(super) fn evict(&self) {
        self.close.set(true);
        self.told.notify_one();
    }

    /// Tells the connection to look at the phase.
    pub(super) fn wake(&self) {
        self.told.notify_one();
    }
}

/// Seats a new connection and serves it in a task of its own. True if another one has to go for it.
pub(super) fn open<R: Responder>(desk: &Rc<Desk<R>>, stream: TcpStream, from: SocketAddr) -> bool {
    desk.counters.accepted.add(1);
    let handle = Rc::new(Handle::default());
    let (seat, evicted) = desk.table.borrow_mut().admit(from.ip(), Rc::clone(&handle));
    if let Some(evicted) = &evicted {
        evicted.evict();
    }
    let desk = Rc::clone(desk);
    tokio::task::spawn_local(async move {
        // Counts also a connection whose task is dropped at the end or has panicked.
        let mut stay = Stay { desk: &desk, seat, why: Close::Stopped };
        let client = Client::new(from.ip(), from.port(), Transport::Tcp);
        stay.why = Connection::new(&desk, stream, client, seat, handle).serve().await;
    });
    evicted.is_some()
}

/// A connection's presence in the table and the counters.
struct Stay<'a, R> {
    desk: &'a Desk<R>,
    seat: Seat,
    why: Close,
}

impl<R> Drop for Stay<'_, R> {
    fn drop(&mut self) {
        self.desk.counters.closed[self.why as usize].add(1);
        let mut table = self.desk.table.borrow_mut();
        table.leave(self.seat);
        if table.is_empty() {
            self.desk.less.notify_one();
        }
    }
}

/// One connection.
struct Connection<'a, R> {
    desk: &'a Desk<R>,
    stream: TcpStream,
    client: Client,
    seat: Seat,
    handle: Rc<Handle>,
    /// What was read and not yet answered: part of a message, and after a pause for answers whole ones too.
    /// At most a message and a read.
    inbox: Vec<u8>,
    /// Answers that the kernel did not take; at most [`ANSWERS`] and one answer.
    outbox: Vec<u8>,
    /// Octets of `outbox` written.
    written: usize,
    /// When the client last asked or took an answer.
    active: Instant,
    /// When the message now in part in `inbox` began.
    begun: Option<Instant>,
    /// When answers began to wait.
    waiting: Option<Instant>,
    /// Nothing more will be read: the client is done, or what it sent is broken.
    finished: Option<Close>,
    /// Whether `inbox` may hold a whole message.
    unanswered: bool,
    timer: Pin<Box<Sleep>>,
}

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interest {
    Read,
    Write,
}

impl<'a, R: Responder> Connection<'a, R> {
    fn new(desk: &'a Desk<R>, stream: TcpStream, client: Client, seat: Seat, handle: Rc<Handle>) -> Self {
        let now = Instant::now();
        Self {
            desk,
            stream,
            client,
            seat,
            handle,
            inbox: vec![],
            outbox: vec![],
            written: 0,
            active: now,
            begun: None,
            waiting: None,
            finished: None,
            unanswered: false,
            timer: Box::pin(sleep_until(now + desk.settings.idle)),
        }
    }

    /// Serves until there is a reason to close.
    async fn serve(&mut self) -> Close {
        loop {
            let interest = if !self.outbox.is_empty() {
                Interest::Write
            } else if self.unanswered {
                let inbox = std::mem::take(&mut self.inbox);
                let desk = self.desk;
                if let Err(close) = self.answer_and_write(&mut desk.work.borrow_mut(), Some(inbox), 0) {
                    return close;
                }
                // Others have their turn before the rest of what this client sent at once.
                tokio::task::yield_now().await;
                continue;
            } else if let Some(close) = self.finished {
                return close;
            } else {
                Interest::Read
            };
            if let Err(close) = self.wait(interest).await {
                return close;
            }
            let step = match interest {
                Interest::Write => self.write(),
                Interest::Read => self.read(),
            };
            match step {
                // A full read: there may be more, but others have their turn first.
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => {}
                Err(close) => return close,
            }
        }
    }

    /// Waits for the stream, its deadline, or an order to close.
    async fn wait(&mut self, interest: Interest) -> Result<(), Close> {
        loop {
            if self.handle.close.get() {
                return Err(Close::Evicted);
            }
            if self.client.port == 0 || self.desk.phase.get() == Phase::End {
                return Err(Close::Stopped);
            }
            let (due, close) = self.deadline();
            // The timer is set anew only when it is late or has run out, not at each message.
            if self.timer.deadline() > due || self.timer.is_elapsed() {
                self.timer.as_mut().reset(due);
            }
            tokio::select! {
                biased;
                () = self.handle.told.notified() => {}
                ready = ready(&self.stream, interest) => return ready.map_err(|_| Close::Error),
                () = self.timer.as_mut() => if Instant::now() >= due { return Err(close) },
            }
        }
    }

    /// Until when to wait, and what it means if nothing comes.
    fn deadline(&self) -> (Instant, Close) {
        let settings = &self.desk.settings;
        if let Some(since) = self.waiting {
            return (since + settings.write, Close::SlowReader);
        }
        if let Some(since) = self.begun {
            return (since + settings.message, Close::SlowMessage);
        }
        if self.desk.phase.get() == Phase::Drain {
            return (self.active + settings.idle.min(DRAIN_IDLE), Close::Stopped);
        }
        (self.active + settings.idle, Close::Idle)
    }

    /// Reads once and answers what is whole. True if there may be more to read.
    fn read(&mut self) -> Result<bool, Close> {
        let desk = self.desk;
        let work = &mut *desk.work.borrow_mut();
        let count = match self.stream.try_read(&mut work.read) {
            Ok(0) => {
                // Half-closed: what was asked has been answered, and part of a message never becomes whole.
                self.finished = Some(Close::Client);
                return Ok(false);
            }
            Ok(count) => count,
            Err(error) if is_not_yet(&error) => return Ok(false),
            Err(_) => return Err(Close::Error),
        };
        let inbox = if self.inbox.is_empty() {
            None
        } else {
            self.inbox.extend_from_slice(&work.read[..count]);
            Some(std::mem::take(&mut self.inbox))
        };
        self.answer_and_write(work, inbox, count)?;
        Ok(count == READ)
    }

    /// Answers what is whole in `inbox`, or where that is none in the octets just read, and writes as much as goes. What
    /// remains of either is kept.
    fn answer_and_write(&mut self, work: &mut Work<R>, inbox: Option<Vec<u8>>, count: usize) -> Result<(), Close> {
        let Work { responder, draws, read, answers } = work;
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
                    self.finished = Some(Close::Length);
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
            let outcome = R::respond(serving, &request, &self.desk.tally, out);
            if let Outcome::Reply(length) = outcome {
                let length = u16::try_from(length).expect("no longer than the 65,535 octets it was given");
                answers[filled..][..frame::LENGTH].copy_from_slice(&length.to_be_bytes());
                filled += frame::LENGTH + usize::from(length);
            }
            taken += frame::LENGTH + message.len();
            messages += 1;
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
        self.note(messages, rest);
        self.write_first(&answers[..filled])
    }

    /// Keeps the clocks after so many messages, with so many octets of the next one left.
    fn note(&mut self, messages: u64, rest: usize) {
        if messages > 0 {
            self.active = Instant::now();
            self.desk.counters.messages.add(messages);
            self.desk.table.borrow_mut().touch(self.seat);
        }
        if rest == 0 || self.unanswered {
            self.begun = None;
        } else if messages > 0 || self.begun.is_none() {
            self.begun = Some(Instant::now());
        }
    }

    /// Writes fresh answers; keeps what the kernel does not take.
    fn write_first(&mut self, answers: &[u8]) -> Result<(), Close> {
        let mut written = 0;
        while written < answers.len() {
            match self.stream.try_write(&answers[written..]) {
                Ok(count) => written += count,
                Err(error) if is_not_yet(&error) => {
                    self.outbox.extend_from_slice(&answers[written..]);
                    self.waiting = Some(Instant::now());
                    break;
                }
                Err(_) => return Err(Close::Error),
            }
        }
        Ok(())
    }

    /// Writes more of what waits. The write deadline stands until all of it is gone: taking an octet now and then does not
    /// extend it. False always: whoever cannot write waits.
    fn write(&mut self) -> Result<bool, Close> {
        match self.stream.try_write(&self.outbox[self.written..]) {
            Ok(count) => self.written += count,
            Err(error) if is_not_yet(&error) => return Ok(false),
            Err(_) => return Err(Close::Error),
        }
        if self.written == self.outbox.len() {
            (self.outbox, self.written, self.waiting) = (vec![], 0, None);
            self.active = Instant::now();
        }
        Ok(false)
    }
}

async fn ready(stream: &TcpStream, interest: Interest) -> io::Result<()> {
    match interest {
        Interest::Read => stream.readable().await,
        Interest::Write => stream.writable().await,
    }
}

fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
