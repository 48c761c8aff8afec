//! Interrupt vectors of a virtio-net device (MSI-X).

use std::io::{self, Write as _};

use anyhow::Result;

use super::NicDevice;
use crate::irq::Message;

impl NicDevice {
    /// Sets or masks a vector. Before the start, when a driver sets one after the other, messages are only noted:
    /// the device interrupts nobody yet.
    pub(super) fn vector_changed(&mut self, vector: u16) {
        let Some(line) = self.lines.get(usize::from(vector)).cloned() else { return };
        let message = self.message(vector);
        let is_noted = message.is_some() && !self.is_started;
        if is_noted {
            self.unrouted.insert(vector);
        } else {
            self.unrouted.remove(&vector);
        }
        let routed = self.irqs.route(&line, message.filter(|_| !is_noted));
        if routed.map_err(|error| self.tell(&error)).is_err() {
            self.give_up();
        }
    }

    /// Sets the vectors that were given messages before the start.
    pub(super) fn route_vectors(&mut self) -> Result<()> {
        let vectors = std::mem::take(&mut self.unrouted);
        let message = |vector| Some((&**self.lines.get(usize::from(vector))?, self.message(vector)?));
        let lines: Vec<_> = vectors.into_iter().filter_map(message).collect();
        let routed = self.irqs.route_all(&lines);
        routed.inspect_err(|error| self.tell(error))
    }

    fn message(&self, vector: u16) -> Option<Message> {
        self.model.message(vector).map(|m| Message { address: m.address, data: m.data })
    }

    /// Reports a fault of the host once: a guest can cause it any number of times.
    fn tell(&mut self, error: &anyhow::Error) {
        if !std::mem::replace(&mut self.told, true) {
            let _ = writeln!(io::stderr(), "ringroad: {error:#}");
        }
    }

    pub(super) fn queue_vector_changed(&mut self, index: u16) {
        let line = self.line(self.model.queue_vector(index));
        let pair = usize::from(index / 2);
        if let Some(control) = self.control.as_mut().filter(|control| control.index == index) {
            control.line = line;
        } else if index.is_multiple_of(2) {
            self.queues.rx.set_line(pair, line);
        } else {
            self.queues.tx.set_line(pair, line);
        }
    }
}
