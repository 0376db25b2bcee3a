//! System calls of the load generator and the limit responder: clocks of processes, batches of datagrams, UDP segmentation.
//!
//! nix has safe wrappers, but those of `recvmmsg` and `sendmmsg` fill in headers and addresses for each call. The limit responder shows
//! the most that a server could reach on a machine, so here headers are built once, and a reply is sent with the header of its query.
//! The other calls are here so that one file has all unsafe code.
#![allow(
    unsafe_code,
    reason = "safe wrappers of recvmmsg and sendmmsg build headers for each call; each block has a safety comment"
)]

use std::{
    io,
    mem::{size_of, zeroed},
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

/// Returns CLOCK_MONOTONIC in nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    clock(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Returns the CPU time of this process in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0)
}

/// Returns the CPU time of another process in nanoseconds: user and system time of all threads, from the scheduler's clock instead of ticks.
pub fn cpu_ns_of(pid: i32) -> Option<u64> {
    clock(!pid << 3 | 2) // CPUCLOCK_SCHED of a process, see clock_getcpuclockid(3)
}

fn clock(id: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the length of the call.
    (unsafe { libc::clock_gettime(id, &raw mut time) } == 0)
        .then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A batch of datagrams, received and sent back with one system call each.
pub struct Batch {
    slots: Vec<u8>,
    slot_len: usize,
    /// In boxes that are never moved or resized, since `headers` points into the other three.
    iovecs: Box<[libc::iovec]>,
    _peers: Box<[libc::sockaddr_in]>,
    headers: Box<[libc::mmsghdr]>,
}

impl Batch {
    /// Returns a batch for `count` datagrams of `slot_len` bytes.
    pub fn new(count: usize, slot_len: usize) -> Self {
        let mut slots = vec![0u8; count * slot_len];
        // SAFETY: all-zero is a valid sockaddr_in and a valid (empty) mmsghdr.
        let mut peers: Box<[libc::sockaddr_in]> = vec![unsafe { zeroed() }; count].into();
        let mut headers: Box<[libc::mmsghdr]> = (0..count).map(|_| unsafe { zeroed() }).collect();
        let base = slots.as_mut_ptr();
        let mut iovecs: Box<[libc::iovec]> = (0..count)
            // SAFETY: `i * slot_len` is within `slots`, which lives as long as `self` and is never resized.
            .map(|i| libc::iovec { iov_base: unsafe { base.add(i * slot_len) }.cast(), iov_len: slot_len })
            .collect();
        for i in 0..count {
            let header: &mut libc::msghdr = &mut headers[i].msg_hdr;
            header.msg_iov = &raw mut iovecs[i];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut peers[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
        }
        Self { slots, slot_len, iovecs, _peers: peers, headers }
    }

    /// Receives up to `max` datagrams; blocks for the first one if `wait`. Returns their number.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, max: usize, wait: bool) -> usize {
        let max = max.min(self.headers.len());
        for iovec in &mut self.iovecs[..max] {
            iovec.iov_len = self.slot_len;
        }
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: the first `max` headers are valid, and point to buffers of the stated lengths that `self` owns.
        let got = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), max as u32, flags, ptr::null_mut())
        };
        usize::try_from(got).unwrap_or(0)
    }

    /// Returns the slot of a datagram, and the number of its received bytes.
    #[inline]
    pub fn slot(&mut self, number: usize) -> (&mut [u8], usize) {
        let len = self.headers[number].msg_len as usize;
        (&mut self.slots[number * self.slot_len..][..self.slot_len], len)
    }

    /// Sets the number of bytes of a slot that are sent back.
    #[inline]
    pub fn set_reply(&mut self, number: usize, len: usize) {
        self.iovecs[number].iov_len = len.min(self.slot_len);
    }

    /// Sends the first `count` slots back to their senders. Datagrams that the kernel does not accept are lost.
    pub fn reply(&mut self, socket: BorrowedFd<'_>, count: usize) {
        let mut sent = 0;
        while sent < count.min(self.headers.len()) {
            let rest = &mut self.headers[sent..count];
            // SAFETY: as in `receive`; the kernel filled in the peers.
            let done =
                unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, libc::MSG_DONTWAIT) };
            sent += usize::try_from(done).unwrap_or(1).max(1);
        }
    }
}

/// Queries of equal length that are sent on a connected socket with one UDP_SEGMENT call. This is cheap for the sender, and makes no
/// difference for the receiver.
#[derive(Debug, Default)]
pub struct Segments {
    bytes: Vec<u8>,
    each: usize,
}

impl Segments {
    /// Largest number of segments per call: UDP_MAX_SEGMENTS of the kernel is at least 64.
    pub const MAX: usize = 64;

    /// Clears the queries. The next ones have this length.
    pub fn start(&mut self, each: usize) {
        self.bytes.clear();
        self.each = each;
    }

    /// Adds a packet. Returns it for changes.
    pub fn push(&mut self, packet: &[u8]) -> &mut [u8] {
        debug_assert_eq!(packet.len(), self.each, "all segments must have the same length");
        let start = self.bytes.len();
        self.bytes.extend_from_slice(packet);
        &mut self.bytes[start..]
    }

    /// Sends the added packets.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut iovec = libc::iovec { iov_base: self.bytes.as_mut_ptr().cast(), iov_len: self.bytes.len() };
        let mut control = [0u64; 4]; // aligned, and larger than CMSG_SPACE(2) = 24
        // SAFETY: `message` points to `iovec` and `control`, both alive over the call; the one control message is written
        // within `control`, whose length is set to CMSG_SPACE(2), so CMSG_FIRSTHDR is not null.
        let sent = unsafe {
            let mut message: libc::msghdr = zeroed();
            message.msg_iov = &raw mut iovec;
            message.msg_iovlen = 1;
            if self.bytes.len() > self.each {
                message.msg_control = control.as_mut_ptr().cast();
                message.msg_controllen = libc::CMSG_SPACE(2) as _;
                let head = libc::CMSG_FIRSTHDR(&raw const message);
                (*head).cmsg_level = libc::SOL_UDP;
                (*head).cmsg_type = libc::UDP_SEGMENT;
                (*head).cmsg_len = libc::CMSG_LEN(2) as _;
                ptr::write_unaligned(libc::CMSG_DATA(head).cast::<u16>(), self.each as u16);
            }
            libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Sends packets of `each` bytes on a connected socket with one system call, up to [`SEND_MAX`]. Returns the number that the kernel took.
pub fn send_each(socket: BorrowedFd<'_>, packets: &mut [u8], each: usize) -> io::Result<usize> {
    // SAFETY: all-zero is a valid (empty) iovec and mmsghdr.
    let mut iovecs: [libc::iovec; SEND_MAX] = unsafe { zeroed() };
    let mut headers: [libc::mmsghdr; SEND_MAX] = unsafe { zeroed() };
    let mut count = 0;
    for packet in packets.chunks_exact_mut(each).take(SEND_MAX) {
        iovecs[count] = libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() };
        headers[count].msg_hdr.msg_iov = &raw mut iovecs[count];
        headers[count].msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: the first `count` headers point to one iovec each, and these to disjoint parts of `packets`; all outlive the call.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Packets per call of [`send_each`].
pub const SEND_MAX: usize = 64;
