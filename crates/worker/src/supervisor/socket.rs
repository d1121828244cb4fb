//! The supervisor's end of the socket: reads orders and writes reports, without one blocking the other.

use std::io;
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, read, write};

use crate::wire::{Frames, Order, Report};

/// Reports that the worker has not taken yet; past this the command's output is left in its pipes.
const MOST_PENDING: usize = 256 << 10;

/// Orders as they come.
#[derive(Default)]
pub(super) struct Orders(Frames);

impl Orders {
    /// Takes what has arrived; an error when the worker is gone.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        match read(io::stdin().as_fd(), spare_capacity(self.0.space())) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next whole order.
    pub(super) fn next(&mut self) -> io::Result<Option<Order>> {
        let frame = self.0.next().map_err(io::Error::other)?;
        frame.map(Order::decode).transpose().map_err(io::Error::other)
    }
}

/// Reports on their way.
#[derive(Default)]
pub(super) struct Reports {
    bytes: Vec<u8>,
    sent: usize,
}

impl Reports {
    pub(super) fn push(&mut self, report: &Report) {
        report.encode(&mut self.bytes);
    }

    /// Where output is written to without another copy.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() - self.sent < MOST_PENDING
    }

    /// Sends as much as the worker takes now.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while self.sent < self.bytes.len() {
            match write(io::stdin().as_fd(), &self.bytes[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => {
                    self.forget_sent();
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(())
    }

    fn forget_sent(&mut self) {
        self.bytes.drain(..self.sent);
        self.sent = 0;
    }
}
