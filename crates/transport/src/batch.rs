//! Receives and sends a batch of datagrams with one system call each (`recvmmsg`, `sendmmsg`), and sets the scheduling of a thread.
//!
//! nix has safe wrappers of both calls, but its `sendmmsg` takes one set of control messages for the whole batch. On a wildcard
//! address each answer has to state its own source address (`IP_PKTINFO`), so each message needs a control buffer of its own.
//!
//! The only file of this crate with `unsafe`. Callers decide when to receive, what to answer, and how to treat an error.
#![allow(unsafe_code, reason = "sendmmsg with control data per message, and sched_setattr, have no safe interface")]

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, UdpSocket},
    os::fd::{AsRawFd, RawFd},
    ptr::{NonNull, addr_of_mut, null_mut},
    time::Duration,
};

use fairway_zones::{Client, Transport};

/// Datagrams per system call. Measured in CPU per query: 16 costs 2 % more, 64 the same, 128 4 % more (the caches overflow).
pub(super) const BATCH: usize = 32;

/// Octets of a query that are kept: more than an Ethernet frame carries. Slots are an odd number of 64-octet cache lines, so that the
/// first lines of all 32 do not fall into the same sets of the cache.
pub(super) const QUERY_MAX: usize = 31 * 64;

/// Octets of an answer: 1,280 (smallest IPv6 MTU) - 40 - 8, so that none needs fragmenting (DNS flag day 2020, RFC 9715).
pub(super) const ANSWER_MAX: usize = 1_232;

/// Bytes of a socket address: `sockaddr_in6`, the larger of the two.
const NAME: usize = size_of::<libc::sockaddr_in6>();

/// Bytes of control data: one `IP_PKTINFO` (28) or `IPV6_PKTINFO` (40), rounded up to a cache line.
const CONTROL: usize = 64;

/// Offset of the data in a control message: after its header, aligned as the header is.
const CONTROL_DATA: usize = size_of::<libc::cmsghdr>().next_multiple_of(align_of::<libc::cmsghdr>());

/// Buffer of one received datagram.
#[repr(C, align(64))]
struct QuerySlot([u8; QUERY_MAX]);

/// Buffer of one answer, at a stride of 21 cache lines (an odd number, as for [`QUERY_MAX`]).
#[repr(C, align(64))]
struct AnswerSlot([u8; 21 * 64]);

/// A socket address as the kernel writes it; aligned as `sockaddr_in6` is.
#[repr(C, align(8))]
struct NameSlot([u8; NAME]);

/// Control data as the kernel writes it; aligned as `cmsghdr` is.
#[repr(C, align(8))]
struct ControlSlot([u8; CONTROL]);

/// All memory that the headers of a batch point into. It never moves.
struct Arena {
    queries: [QuerySlot; BATCH],
    answers: [AnswerSlot; BATCH],
    names: [NameSlot; BATCH],
    controls: [ControlSlot; BATCH],
    query_parts: [libc::iovec; BATCH],
    answer_parts: [libc::iovec; BATCH],
    received: [libc::mmsghdr; BATCH],
    queued: [libc::mmsghdr; BATCH],
}

/// Buffers and headers of one worker, created in its thread and reused for every batch.
pub(super) struct Batch {
    /// Owned; from `Box::leak`. Every access goes through this pointer, because the headers hold pointers into the same memory.
    arena: NonNull<Arena>,
    /// Messages of the last receive; at most [`BATCH`].
    received: usize,
    /// Answers queued; at most `received`.
    queued: usize,
    /// True if the kernel reports the destination of each datagram as control data.
    control: bool,
}

/// One query of a batch and the buffer for its answer.
pub(super) struct Exchange<'a> {
    /// Sender of the query.
    pub(super) client: Client,
    /// The datagram, truncated to [`QUERY_MAX`].
    pub(super) query: &'a [u8],
    /// True if the kernel truncated the datagram.
    pub(super) cut: bool,
    /// Buffer for the answer: [`ANSWER_MAX`] octets.
    pub(super) answer: &'a mut [u8],
}

impl Batch {
    /// Returns an empty batch. `control`: the socket is bound to a wildcard address, so each answer must state its source address.
    pub(super) fn new(control: bool) -> Self {
        // SAFETY: every field of `Arena` is an array of integers, or of libc structures of integers and raw pointers, for
        // all of which zeroes are a valid value.
        let arena: Box<Arena> = unsafe { Box::new_zeroed().assume_init() };
        let arena = NonNull::from(Box::leak(arena));
        let mut batch = Self { arena, received: 0, queued: 0, control };
        for index in 0..BATCH {
            batch.point(index);
        }
        batch
    }

    /// Sets the pointers in the headers of one slot. They never change afterwards.
    fn point(&mut self, index: usize) {
        assert!(index < BATCH);
        let arena = self.arena.as_ptr();
        // SAFETY: `arena` is valid and ours alone, `index` is within every array. Only places are computed from the raw
        // pointer, so that the stored pointers stay valid while references are made from it later.
        unsafe {
            let query_part = addr_of_mut!((*arena).query_parts[index]);
            (*query_part).iov_base = addr_of_mut!((*arena).queries[index]).cast();
            (*query_part).iov_len = QUERY_MAX;
            let header = addr_of_mut!((*arena).received[index].msg_hdr);
            (*header).msg_iov = query_part;
            (*header).msg_iovlen = 1;
            (*header).msg_name = addr_of_mut!((*arena).names[index]).cast();
            (*header).msg_control =
                if self.control { addr_of_mut!((*arena).controls[index]).cast() } else { null_mut() };
            let header = addr_of_mut!((*arena).queued[index].msg_hdr);
            (*header).msg_iov = addr_of_mut!((*arena).answer_parts[index]);
            (*header).msg_iovlen = 1;
        }
        self.open(index);
    }

    /// Resets the lengths in a slot's header, which the kernel replaces with those it received.
    fn open(&mut self, index: usize) {
        let control = if self.control { CONTROL } else { 0 };
        // SAFETY: the arena is valid and ours alone; no reference into it is alive.
        let header = unsafe { &mut (*self.arena.as_ptr()).received[index].msg_hdr };
        header.msg_namelen = NAME as libc::socklen_t;
        header.msg_controllen = control as _;
        header.msg_flags = 0;
    }

    /// Receives up to [`BATCH`] datagrams in place of the last ones. Returns their number.
    ///
    /// `wait`: blocks for the first one, at most for the receive timeout of the socket.
    pub(super) fn receive(&mut self, socket: &UdpSocket, wait: bool) -> io::Result<usize> {
        for index in 0..self.received {
            self.open(index);
        }
        (self.received, self.queued) = (0, 0);
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: the arena is valid and ours alone, no reference into it is alive. Its BATCH headers point to one iovec, one
        // address and one control buffer each, all of the lengths that the headers state, all within the arena.
        let count = unsafe {
            let headers = addr_of_mut!((*self.arena.as_ptr()).received).cast();
            libc::recvmmsg(socket.as_raw_fd(), headers, BATCH as libc::c_uint, flags as _, null_mut())
        };
        self.received = usize::try_from(count).map_err(|_| io::Error::last_os_error())?.min(BATCH);
        Ok(self.received)
    }

    /// Returns the packet of one received query.
    #[inline]
    pub(super) fn query(&self, index: usize) -> &[u8] {
        assert!(index < self.received);
        // SAFETY: the arena is valid and ours alone; the references made here live no longer than the borrow of `self`.
        let (header, query) =
            unsafe { (&(*self.arena.as_ptr()).received[index], &(*self.arena.as_ptr()).queries[index].0) };
        &query[..(header.msg_len as usize).min(QUERY_MAX)]
    }

    /// Returns one received query with its sender and the buffer for its answer.
    #[inline]
    pub(super) fn exchange(&mut self, index: usize) -> Exchange<'_> {
        assert!(index < self.received);
        // SAFETY: the arena is valid and ours alone; the references made here live no longer than the borrow of `self`, and
        // those to the query and to the answer are to different fields.
        let (header, name, query, answer) = unsafe {
            let arena = self.arena.as_ptr();
            let (answers, queries) = (&mut (*arena).answers[index].0, &(*arena).queries[index].0);
            (&(*arena).received[index], &(*arena).names[index].0, queries, answers)
        };
        Exchange {
            client: client(name),
            query: &query[..(header.msg_len as usize).min(QUERY_MAX)],
            cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            answer: &mut answer[..ANSWER_MAX],
        }
    }

    /// Queues the first `length` octets of a query's answer, from the address that was queried to the client.
    #[inline]
    pub(super) fn reply(&mut self, index: usize, length: usize) {
        assert!(index < self.received && self.queued < BATCH && length <= ANSWER_MAX);
        let arena = self.arena.as_ptr();
        // SAFETY: the arena is valid and ours alone, both indices are within its arrays; no reference into it is alive.
        // `answer` and the two buffers taken over from the received header stay where they are.
        unsafe {
            let part = &mut (*arena).answer_parts[self.queued];
            part.iov_base = addr_of_mut!((*arena).answers[index]).cast();
            part.iov_len = length;
            let (received, queued) = (&(*arena).received[index].msg_hdr, &mut (*arena).queued[self.queued].msg_hdr);
            queued.msg_name = received.msg_name;
            queued.msg_namelen = received.msg_namelen;
            if self.control {
                let control = &mut (*arena).controls[index].0;
                let has_source = received.msg_controllen >= CONTROL_DATA as _ && leave_by_any_interface(control);
                queued.msg_control = if has_source { received.msg_control } else { null_mut() };
                queued.msg_controllen = if has_source { received.msg_controllen } else { 0 };
            }
        }
        self.queued += 1;
    }

    /// Sends all queued answers. Calls `failed` for each one that cannot be sent, and continues with the next.
    pub(super) fn send(&mut self, socket: &UdpSocket, mut failed: impl FnMut(io::Error)) {
        let mut at = 0;
        while at < self.queued {
            match self.send_from(socket.as_raw_fd(), at) {
                Ok(count) => at += count.max(1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    failed(error);
                    at += 1;
                }
            }
        }
        self.queued = 0;
    }

    /// Sends queued messages from index `at` on. Returns how many were sent; an error belongs to the first of them.
    fn send_from(&mut self, socket: RawFd, at: usize) -> io::Result<usize> {
        assert!(at < self.queued);
        // SAFETY: the arena is valid and ours alone, no reference into it is alive. The headers from `at` to `queued` were
        // filled by `reply`: what they point to is within the arena and of the lengths stated.
        let count = unsafe {
            let headers = addr_of_mut!((*self.arena.as_ptr()).queued[at]);
            libc::sendmmsg(socket, headers, (self.queued - at) as libc::c_uint, libc::MSG_DONTWAIT as _)
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: the pointer is from `Box::leak` in `new`, and this is its only owner.
        drop(unsafe { Box::from_raw(self.arena.as_ptr()) });
    }
}

/// Makes the kernel report the destination of each datagram, for sockets bound to a wildcard address. A dual-stack IPv6 socket
/// reports and accepts IPv4 destinations as IPv4-mapped addresses.
pub(super) fn ask_for_destination(socket: &UdpSocket, v6: bool) -> io::Result<()> {
    let (level, option) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) } else { (libc::IPPROTO_IP, libc::IP_PKTINFO) };
    let on: libc::c_int = 1;
    // SAFETY: the value is an int that lives through the call, and its size is stated.
    let result = unsafe {
        let value = std::ptr::from_ref(&on).cast();
        libc::setsockopt(socket.as_raw_fd(), level, option, value, size_of::<libc::c_int>() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Scheduling parameters of a thread. The system may refuse them (a sandbox, a real-time policy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheduling {
    /// `SCHED_BATCH` instead of `SCHED_OTHER`: a wake-up preempts no other thread (sched(7)).
    pub(super) is_batch: bool,
    /// Added to the niceness of the process; the sum is capped at 19.
    pub(super) nicer_by: i32,
    /// Time slice: 0.1 to 100 ms (Linux 6.12 and newer; older kernels ignore it). A short slice makes the thread run again sooner and
    /// does not change its share of the core. `None`: the default of the system.
    pub(super) slice: Option<Duration>,
}

impl Scheduling {
    /// Applies the parameters to the calling thread (sched_setattr(2)).
    pub(super) fn apply(self) -> io::Result<()> {
        let nice = rustix::process::getpriority_process(Some(rustix::process::getpid()))?;
        let attributes = libc::sched_attr {
            size: size_of::<libc::sched_attr>() as u32,
            sched_policy: if self.is_batch { libc::SCHED_BATCH } else { libc::SCHED_OTHER } as u32,
            sched_flags: 0,
            sched_nice: (nice + self.nicer_by).min(19),
            sched_priority: 0,
            sched_runtime: self.slice.map_or(0, |slice| slice.as_nanos() as u64),
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: the structure lives through the call and states its size; the kernel reads it. 0 is the calling thread.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(&attributes), 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Reads an address that the kernel wrote: family in host order, port in network order, address.
#[inline]
fn client(name: &[u8; NAME]) -> Client {
    let port = u16::from_be_bytes([name[2], name[3]]);
    let family = libc::c_int::from(u16::from_ne_bytes([name[0], name[1]]));
    if family == libc::AF_INET6 {
        return client_v6(name, port);
    }
    let address = Ipv4Addr::new(name[4], name[5], name[6], name[7]);
    Client { address: address.into(), port, transport: Transport::Udp }
}

/// Reads an address of an IPv6 socket. Not inlined: inlined into [`client`], the compiler copies both forms octet by octet.
#[inline(never)]
fn client_v6(name: &[u8; NAME], port: u16) -> Client {
    let octets: [u8; 16] = name[8..24].try_into().expect("16 octets");
    Client::new(Ipv6Addr::from(octets).into(), port, Transport::Udp)
}

/// Turns a received `IP_PKTINFO` or `IPV6_PKTINFO` into one for sending: keeps the address and clears the interface, because routing
/// chooses the way back (link-local destinations have their scope in the address). Returns false for any other control data.
fn leave_by_any_interface(control: &mut [u8; CONTROL]) -> bool {
    let word = |at: usize| i32::from_ne_bytes([control[at], control[at + 1], control[at + 2], control[at + 3]]);
    // `cmsghdr` is a length of one machine word, then level and type.
    let (level, kind) = (word(CONTROL_DATA - 8), word(CONTROL_DATA - 4));
    let interface = match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => CONTROL_DATA,
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => CONTROL_DATA + size_of::<libc::in6_addr>(),
        _ => return false,
    };
    control[interface..interface + 4].fill(0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the scheduling of the calling thread (sched_getattr(2)).
    fn current_scheduling() -> libc::sched_attr {
        let mut held = libc::sched_attr {
            size: 0,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        };
        let size = size_of::<libc::sched_attr>();
        // SAFETY: the structure lives through the call, and its size is stated. 0 is the calling thread.
        let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, std::ptr::from_mut(&mut held), size, 0) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        held
    }

    /// True if the kernel supports time slices per thread: Linux 6.12 and newer.
    fn supports_slices() -> bool {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
        (parts.next(), parts.next()) >= (Some(6), Some(12))
    }

    #[test]
    fn scheduling_applies_to_the_calling_thread_and_the_threads_it_starts() {
        let before = current_scheduling();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let slice = Some(Duration::from_micros(100));
                Scheduling { is_batch: false, nicer_by: 0, slice }.apply().unwrap();
                let held = current_scheduling();
                assert_eq!((held.sched_policy, held.sched_nice), (libc::SCHED_OTHER as u32, before.sched_nice));
                assert_eq!(held.sched_runtime, if supports_slices() { 100_000 } else { 0 });
            });
            scope.spawn(|| {
                Scheduling { is_batch: true, nicer_by: 10, slice: None }.apply().unwrap();
                let held = std::thread::spawn(current_scheduling).join().unwrap();
                let nice = (before.sched_nice + 10).min(19);
                assert_eq!((held.sched_policy, held.sched_nice), (libc::SCHED_BATCH as u32, nice));
            });
        });
        assert_eq!(current_scheduling().sched_nice, before.sched_nice);
    }
}
