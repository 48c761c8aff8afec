//! `switch:NAME`: a port of a learning switch of the run.

use std::sync::Arc;

use anyhow::{Context, Result};
use port::{IngressCounters, Sink, Source, ingress_fan};
use switch::Switch;

use crate::{
    Attachment, AttachmentProperties, Entry, Kind, NicRequirements, Outside, Place, Ports, ServiceContext,
    plain,
};

pub(crate) const KIND: Kind = Kind {
    traits: |_| AttachmentProperties { is_common: true, ..AttachmentProperties::default() },
    counts: &[("ingress", IngressCounters::FIELDS)],
    ..Kind::plain("switch", Some("NAME"), Place::Inside(inside))
};

fn inside(wanted: &NicRequirements, switches: &[Arc<Switch>]) -> Result<Arc<dyn Attachment>> {
    let switch = switches.iter().find(|switch| switch.name() == wanted.attach.name());
    let switch = switch.context("a switch that is not there")?.clone();
    Ok(plain(move |service| ports(&switch, service)))
}

/// Creates a switch port for each start of a router, with an ingress queue per thread, unless the senders
/// fill the NIC's rings themselves (`deliver = "direct"`).
fn ports(switch: &Arc<Switch>, service: &ServiceContext<'_>) -> Result<Ports> {
    let wanted = service.wanted;
    let (entry, sources, queue) = if wanted.is_direct {
        ((service.entry)(Entry::Ring, service.queues.common_sink()), Vec::new(), None)
    } else {
        let (fan, waiting) = ingress_fan(wanted.queue_len, wanted.queues, wanted.hash)
            .context("cannot make an ingress queue")?;
        let waiting = waiting.into_iter().map(|queue| Box::new(queue) as Box<dyn Source>).collect();
        ((service.entry)(Entry::Queue, fan.clone()), waiting, Some(fan))
    };
    let port = switch.add_port(&wanted.label(), entry)?;
    let lane = |thread| Arc::new(port.lane(thread)) as Arc<dyn Sink>;
    let sinks = (0..service.threads).map(lane).collect();
    let (switch, id) = (switch.clone(), port.id());
    let outside = Outside::counting(move |visit| {
        if let Some(queue) = &queue {
            visit("queue", &queue.counters());
        }
    });
    let outside = outside.left_by(move || {
        switch.remove_port(id);
    });
    Ok(Ports { sources, is_spread: true, have_entered: true, sinks, outside })
}
