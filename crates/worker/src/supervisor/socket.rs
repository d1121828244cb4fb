//! The supervisor's end of the socket: reads orders and writes reports, without one blocking the other.

use std::io;
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, read, write};

use crate::wire::{Frames, Order, Report};

/// Maximum size of unsent reports; beyond it the output of the command stays in its pipes.
const MOST_PENDING: usize = 256 << 10;

#[derive(Default)]
pub(super) struct Orders(Frames);

impl Orders {
    /// Reads the available bytes; an error if the worker has closed the socket.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        match read(io::stdin().as_fd(), spare_capacity(self.0.space())) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next complete order.
    pub(super) fn next(&mut self) -> io::Result<Option<Order>> {
        let frame = self.0.next().map_err(io::Error::other)?;
        frame.map(Order::decode).transpose().map_err(io::Error::other)
    }
}

#[derive(Default)]
pub(super) struct Reports {
    bytes: Vec<u8>,
    sent: usize,
}

impl Reports {
    pub(super) fn push(&mut self, report: &Report) {
        report.encode(&mut self.bytes);
    }

    /// The buffer to which output is written without another copy.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() - self.sent < MOST_PENDING
    }

    /// Sends as much as the worker accepts now.
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
