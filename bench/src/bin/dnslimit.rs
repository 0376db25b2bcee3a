//! The limit responder: the performance of a socket server without DNS work. It receives, sets QR, appends a constant A record and sends,
//! with the same system calls as the server: recvmmsg and sendmmsg, batches of 32, blocking.

use std::{net::SocketAddr, os::fd::AsFd};

use clap::Parser;
use fairway_bench::Batch;
use socket2::{Domain, Socket, Type};

/// Answers every query with the same record, without parsing it.
#[derive(Parser)]
struct Options {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:5300")]
    listen: SocketAddr,
    /// Sets the scope of the client subnet to its source length. Every query must end with a client subnet (/24).
    #[arg(long)]
    ecs: bool,
}

fn main() -> std::io::Result<()> {
    let options = Options::parse();
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket.set_recv_buffer_size(4 << 20)?;
    socket.bind(&options.listen.into())?;
    let mut batch = Batch::new(32, 512);
    loop {
        let count = batch.receive(socket.as_fd(), 32, true);
        for number in 0..count {
            let (slot, len) = batch.slot(number);
            let len = reply(slot, len, options.ecs);
            batch.set_reply(number, len);
        }
        batch.reply(socket.as_fd(), count);
    }
}

/// Turns the query in `slot[..len]` into a reply in place. Returns the length of the reply.
fn reply(slot: &mut [u8], len: usize, ecs: bool) -> usize {
    if !(17..=400).contains(&len) {
        return len;
    }
    slot[2] |= 0x84;
    slot[7] = 1;
    let mut end = 12;
    while end < len && slot[end] != 0 {
        end += usize::from(slot[end]) + 1;
    }
    let end = (end + 5).min(len);
    // The OPT record follows the question. It moves behind the answer.
    slot.copy_within(end..len, end + RECORD.len());
    slot[end..end + RECORD.len()].copy_from_slice(&RECORD);
    let len = len + RECORD.len();
    if ecs {
        // Source length, scope, three octets of address.
        slot[len - 4] = slot[len - 5];
    }
    len
}

/// Owner 0xc00c, A, IN, TTL 60, 10.0.0.1.
const RECORD: [u8; 16] = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 1];
