//! `switch:NAME`: a port of a learning switch of the run. For a kernel router the supervisor opens a TAP behind the port. The
//! data plane serves the TAP, and the supervisor moves it into the router's namespace.

use std::io;
use std::sync::Arc;

use anyhow::{Context, Result};
use kernel_router::Origin;
use port::{IngressCounters, Sink, Source, ingress_fan, ingress_fan_in_turn};
use switch::Switch;
use uplink::{Tap, TapConfig};

use crate::interfaces::is_free;
use crate::link::{self, Side, made};
use crate::urgent::Overtaking;
use crate::{
    Attachment, AttachmentProperties, Entry, Finding, HostResource, KernelUse, Kind, MissingRequirement,
    NicRequirements, Outside, Place, Ports, ServiceContext, State, lack, plain,
};

pub(crate) const KIND: Kind = Kind {
    traits: |_| AttachmentProperties { is_common: true, ..AttachmentProperties::default() },
    counts: &[("ingress", IngressCounters::FIELDS)],
    kernel: Some(KernelUse {
        look,
        origin: |wanted| Origin::Moved { link: wanted.link_name() },
        open: Some(open),
        has_napi: false,
        needs_tun: true,
    }),
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
    let (entry, waiting) = if wanted.is_direct {
        ((service.entry)(Entry::Ring, service.queues.common_sink()), Waiting::default())
    } else {
        let (entry, waiting) = queue(wanted).context("cannot make an ingress queue")?;
        ((service.entry)(Entry::Queue, entry), waiting)
    };
    let Waiting { sources, urgent, counters } = waiting;
    let port = switch.add_port(&wanted.label(), entry)?;
    let lane = |thread| Arc::new(port.lane(thread)) as Arc<dyn Sink>;
    let sinks = (0..service.threads).map(lane).collect();
    let (switch, id) = (switch.clone(), port.id());
    let outside = Outside::counting(move |visit| {
        if let Some(counters) = &counters {
            visit("queue", &counters());
        }
    });
    let outside = outside.left_by(move || {
        switch.remove_port(id);
    });
    Ok(Ports { sources, is_spread: true, have_entered: true, sinks, urgent, control: None, outside })
}

/// Consumers' side of a NIC's ingress queue.
#[derive(Default)]
struct Waiting {
    /// One for each thread.
    sources: Vec<Box<dyn Source>>,
    /// Frames that have overtaken others.
    urgent: Option<Box<dyn Source>>,
    /// None if there is no queue.
    counters: Option<Counters>,
}

/// Reads the counters of a queue.
type Counters = Box<dyn Fn() -> IngressCounters + Send + Sync>;

/// Creates the ingress queue of a NIC, past which frames for a control plane find a way.
fn queue(wanted: &NicRequirements) -> io::Result<(Arc<dyn Sink>, Waiting)> {
    let (fan, sources) = if wanted.in_turn {
        ingress_fan_in_turn(wanted.queue_len, wanted.queues)?
    } else {
        ingress_fan(wanted.queue_len, wanted.queues, wanted.hash)?
    };
    let sources = sources.into_iter().map(|queue| Box::new(queue) as Box<dyn Source>).collect();
    if !wanted.has_control {
        let (entry, counted): (Arc<dyn Sink>, _) = (fan.clone(), fan);
        let counters: Counters = Box::new(move || counted.counters());
        return Ok((entry, Waiting { sources, urgent: None, counters: Some(counters) }));
    }
    let (past, urgent) = Overtaking::new(fan, wanted.queue_len)?;
    let past = Arc::new(past);
    let (entry, counted): (Arc<dyn Sink>, _) = (past.clone(), past);
    let counters: Counters = Box::new(move || counted.counters());
    Ok((entry, Waiting { sources, urgent: Some(urgent), counters: Some(counters) }))
}

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.link_name();
    is_free(&name).map_err(lack)?;
    Ok((State::Ok, format!("makes the TAP {name}, which moves into the router's namespace")))
}

/// Opens a TAP that stays down until it is in the router's namespace, so that the host does not become a station of the switch.
/// It has the NIC's address from the beginning, because LXC sets none when it moves the TAP into a container.
fn open(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let config = TapConfig { queues: 1, mac: Some(wanted.mac), up: false, ..link::config(wanted) };
    made(Tap::open(&wanted.link_name(), &config), wanted, Side::Host)
}
