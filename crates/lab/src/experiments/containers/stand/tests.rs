use super::*;

#[test]
fn only_routers_with_threads_of_ours_say_where_these_run() {
    assert!(Stand::MACVTAP.lines(3).contains("vcpu = \"3\""));
    assert_eq!(Stand::KERNEL_VETH.lines(3), "");
    assert!(Stand::KERNEL_THREADS.lines(3).contains("vhost = \"3\""));
}

#[test]
fn a_machine_is_served_by_what_its_name_says() {
    let options = Options::default();
    let vhost = |stand: Stand| stand.options(&options).vhost;
    let served = [Stand::MACVTAP, Stand::MACVTAP_VMM, Stand::MACVTAP_VHOST_NET].map(vhost);
    assert_eq!(served, [VhostThreads::Shared, VhostThreads::Vmm, VhostThreads::Kernel]);
    assert_eq!(Stand::PROCESS_TAP.by, Forwarder::Command(Engine::Process));
    assert_eq!((Stand::KVM_TAP.by, Stand::KVM_TAP.link), (Forwarder::Command(Engine::Kvm), Link::Tap));
}
