//! `null`: frames sent are counted and dropped, and none are received.

use std::sync::Arc;

use anyhow::Result;
use port::{Null, Sink};
use switch::Switch;

use crate::{Attachment, Kind, Place, Ports, Traits, Wanted, plain};

pub(crate) const KIND: Kind = Kind {
    traits: |_| Traits { is_common: true, ..Traits::default() },
    ..Kind::plain("null", None, Place::Inside(inside))
};

fn inside(_: &Wanted, _: &[Arc<Switch>]) -> Result<Arc<dyn Attachment>> {
    Ok(plain(|site| {
        let sink = |_| Arc::new(Null::new()) as Arc<dyn Sink>;
        Ok(Ports { sinks: (0..site.threads).map(sink).collect(), ..Ports::default() })
    }))
}
