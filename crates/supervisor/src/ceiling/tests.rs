use super::*;

const GIB: u64 = 1 << 30;

fn plan(text: &str) -> Plan {
    config::parse(text, "f.toml").expect("a good file")
}

fn router(name: &str, more: &str, attach: &str, of_nic: &str) -> String {
    format!(
        "[[router]]\nname = \"{name}\"\nengine = \"kvm\"\nmemory = \"256M\"\n{more}\n\
         [[router.nic]]\nname = \"a\"\nattach = \"{attach}\"\naddress = \"192.0.2.1/24\"\n{of_nic}\n"
    )
}

fn of(text: &str) -> Ceiling {
    needed(&plan(text), None, Some(16 * GIB))
}

#[test]
fn the_ceiling_of_one_router_by_hand() {
    let one = of(&router("edge", "", "null", ""));
    // Plane, RAM and its page tables, router, a queue of 1000 frames.
    assert_eq!(one.memory, (64 + 256 + 2 + 128 + 8) * MIB + 1000 * 2048);
    assert_eq!(one.tasks, 64 + 256);
}

#[test]
fn it_grows_by_what_a_plan_says() {
    let alone = router("edge", "", "null", "");
    let one = of(&alone);
    let two = of(&(alone.clone() + &router("core", "", "null", "")));
    assert_eq!(two.memory - one.memory, (256 + 2 + 128 + 8) * MIB + 1000 * 2048);
    assert_eq!(two.tasks - one.tasks, 256);
    let longer = of(&router("edge", "", "null", "queue_len = 65536"));
    assert_eq!(longer.memory - one.memory, (65_536 - 1000) * 2048);
    let per_queue = of(&router("edge", "vcpus = 4\nvhost = \"per-queue\"", "null", "queues = 4"));
    assert_eq!(per_queue.memory - one.memory, 3 * (8 * MIB + 1000 * 2048));
    let process = of(&alone.replace("kvm", "process"));
    assert_eq!((process.memory, process.tasks - one.tasks), (one.memory, 32));
    let isolated = of(&router("edge", "isolate = \"process\"", "null", ""));
    assert_eq!((isolated.memory - one.memory, isolated.tasks - one.tasks), (64 * MIB, 256 + 64));
    let roomy = of(&router("edge", "long_routes = 65536", "null", ""));
    assert_eq!(roomy.memory - one.memory, 64 * MIB);
    let routes = "[[router.route]]\nto = \"198.51.100.0/25\"\nvia = \"192.0.2.2\"\n";
    assert_eq!(of(&(alone + routes)).memory - one.memory, 2048);
}

#[test]
fn queues_of_a_group_count_beside_those_of_its_members() {
    let group = |lines: &str| {
        let nic = "[[group.nic]]\nname = 'a'\nattach = 'switch:lan'\naddress = '192.0.2.1/24'\n";
        plan(&format!("[switch.lan]\n[[group]]\nname = 'core'\nmemory = '256M'\n{lines}\n{nic}"))
    };
    let without = |plan: &Plan| Plan { groups: Vec::new(), ..plan.clone() };
    let shared = |plan: &Plan| memory_of_run(plan) - memory_of_run(&without(plan));
    let queue = 8 * MIB + 1000 * 2048;
    assert_eq!(shared(&group("kind = 'parallel'\nmembers = 2")), 8 * queue);
    assert_eq!(shared(&group("kind = 'multistage'\nbackends = 2")), queue);
}

#[test]
fn of_what_the_kernel_forwards_its_ports_on_switches_count_alone() {
    let router = |attach: &str| {
        format!(
            "[switch.lan]\n[[router]]\nname = \"edge\"\nengine = \"kernel\"\n[[router.nic]]\nname = \"a\"\nattach = \"{attach}\"\n"
        )
    };
    let (veth, port) = (of(&router("veth:rr0")), of(&router("switch:lan")));
    assert_eq!((veth.memory, veth.tasks), (64 * MIB, 64));
    assert_eq!((port.memory - veth.memory, port.tasks - veth.tasks), (16 * MIB + 1000 * 2048, 2));
}

#[test]
fn a_tunnel_of_a_group_counts_as_a_port_of_a_switch() {
    let group = |more: &str| {
        of(&format!(
            "[[group]]\nname = 'core'\nkind = 'multistage'\nbackends = 2\nbalancer = 'vm'\nmemory = '256M'\n{more}\n\
             [[group.nic]]\nname = 'a'\nattach = 'tap:x'\naddress = '192.0.2.1/24'\n"
        ))
    };
    let (without, with) = (group(""), group("tunnels = 'udp:127.0.0.1:4800-127.0.0.1:4900'"));
    assert_eq!((with.memory - without.memory, with.tasks - without.tasks), (16 * MIB + 1000 * 2048, 2));
}

#[test]
fn what_a_peer_may_share_counts_as_far_as_the_host_could_give_it() {
    let own = of(&router("edge", "", "null", "")).memory;
    let with_peer = |of_nic: &str| router("edge", "", "vhost-user-backend:/run/peer.sock", of_nic);
    assert_eq!(of(&with_peer("memory_max = \"2G\"")).memory, own + 2 * GIB);
    // 64 GiB by default; an eighth of the host is left to others.
    assert_eq!(of(&with_peer("")).memory, 14 * GIB);
    // A plan that itself needs more than that is not given less.
    let small = needed(&plan(&with_peer("")), None, Some(GIB / 4));
    assert_eq!(small.memory, own);
    let unknown = needed(&plan(&with_peer("")), None, None);
    assert_eq!(unknown.memory, own + 64 * GIB);
    // A peer that was handed a router's RAM may keep it a little longer than the data plane that made it
    // lives.
    let lent = of(&router("edge", "", "vhost-user-frontend:/run/peer.sock", ""));
    assert_eq!(lent.memory - own, (256 + 2) * MIB);
}

#[test]
fn the_owner_may_say_another_memory() {
    let (one, two) = (plan(&router("edge", "", "null", "")), plan(&router("edge", "vcpus = 2", "null", "")));
    let ceiling = needed(&one, Some(96 * MIB), Some(16 * GIB));
    assert_eq!((ceiling.memory, ceiling.tasks), (96 * MIB, 64 + 256));
    let [one, two] = [one, two].map(|plan| needed(&plan, None, Some(16 * GIB)));
    assert_eq!(both(one, two, Some(96 * MIB)), Ceiling { memory: 96 * MIB, tasks: one.tasks + two.tasks });
    assert_eq!(both(one, two, None).memory, one.memory + two.memory);
}

#[test]
fn what_has_come_of_it_is_told_in_words() {
    let told = |resource, times, ceiling| line(&Reached { resource, times, ceiling });
    assert_eq!(
        told(Resource::Memory, 1, Some(160 * MIB)),
        "the run has reached its ceiling of memory, 160 MiB: the kernel has ended 1 of its processes"
    );
    assert_eq!(
        told(Resource::Memory, 2, None),
        "the host, or a group around the run, is out of memory: the kernel has ended 2 of its processes"
    );
    assert_eq!(
        told(Resource::Tasks, 7, Some(320)),
        "the run has reached its ceiling of tasks, 320: the kernel has refused 7 threads or processes"
    );
}
