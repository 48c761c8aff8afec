//! `null`: frames sent are counted and dropped, and none are received.

use std::sync::Arc;

use anyhow::Result;
use port::{Null, Sink};
use switch::Switch;

use crate::{Attachment, AttachmentProperties, Kind, NicRequirements, Place, Ports, plain};

pub(crate) const KIND: Kind = Kind {
    traits: |_| AttachmentProperties { is_common: true, ..AttachmentProperties::default() },
    ..Kind::plain("null", None, Place::Inside(inside))
};

fn inside(_: &NicRequirements, _: &[Arc<Switch>]) -> Result<Arc<dyn Attachment>> {
    Ok(plain(|service| {
        let sink = |_| Arc::new(Null::new()) as Arc<dyn Sink>;
        Ok(Ports { sinks: (0..service.threads).map(sink).collect(), ..Ports::default() })
    }))
}
