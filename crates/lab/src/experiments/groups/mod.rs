//! Experiments about groups of routers, and about many routers outside of groups: what members carry of what the CPUs could, what is lost
//! while members come and go or are killed, how fast a new one forwards, and what a router costs where there are hundreds.

pub(super) mod changes;
pub(super) mod density;
pub(super) mod efficiency;
pub(super) mod killed;
pub(super) mod newcomer;
