//! The ways of scenarios, and certificates; without a run.

use warpline_scenario::{Endpoint, Scenario};

use super::base::Base;
use super::bench::Ran;
use super::causes::{Cause, Evidence, Explanation};
use super::certificate::WayFacts;
use super::ways::{Setting, Unmade, WAYS, make};
use super::*;

/// Two hosts with a CUBIC flow, and two with a flow of TCP Nice.
pub(super) const TWO: &str = r#"
name = "two"
duration = "9s"
link = [
  { between = ["a", "b"], rate = "10Mbit/s", delay = "10ms", queue = "codel", loss = "1%" },
  { between = ["c", "d"], rate = "10Mbit/s", delay = "20ms" },
]
flow = [
  { name = "bulk", from = "a", to = "b", start = "1s..2s" },
  { name = "background", from = "c", to = "d", cc = "nice" },
]
"#;

fn linux() -> Linux {
    let controls = ["reno", "cubic", "westwood"].map(str::to_owned).to_vec();
    Linux { name: None, version: "6.1.1".to_owned(), controls }
}

fn machine() -> Machine {
    Machine {
        program: "/usr/bin/warpline".into(),
        build: "0.1.0-abc".to_owned(),
        kernel: "6.18.1".to_owned(),
        processor: "a processor".to_owned(),
        cores: 2,
        guests: Ok(linux()),
        live: Ok(vec!["reno".to_owned(), "cubic".to_owned()]),
    }
}

/// A cross-check of these two flows.
pub(super) fn plan() -> Plan {
    Plan {
        source: Source::from_text("two.toml", TWO, "".as_ref()),
        sets: vec!["duration=9s".to_owned()],
        ways: Vec::new(),
        kernels: Vec::new(),
        sets_in: Vec::new(),
        seeds: vec![1, 2],
        tdf: 2.0,
        clock_percent: 2.0,
        model_percent: 5.0,
        narrow: true,
        jobs: 1,
        kept: PathBuf::new(),
        date: "2026-11-26".to_owned(),
        machine: machine(),
    }
}

pub(super) fn base(text: &str, sets: &[&str]) -> Base {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Base::new(&Source::from_text("two.toml", text, "".as_ref()), &sets)
        .unwrap_or_else(|wrong| panic!("{wrong}"))
}

pub(super) fn made(way: &str, base: &Base, own: &[&str]) -> Result<Made, String> {
    let machine = machine();
    let setting = Setting { machine: &machine, linux: machine.guests.as_ref().ok(), tdf: 2.0, seed: 3 };
    let way = WAYS.iter().find(|other| other.name() == way).unwrap();
    let own: Vec<String> = own.iter().map(|set| (*set).to_owned()).collect();
    make(*way, base, &setting, &own).map_err(|unmade| match unmade {
        Unmade::NotPossible(why) => why,
        Unmade::Wrong(wrong) => format!("wrong: {wrong}"),
    })
}

fn guests(scenario: &Scenario) -> Vec<&str> {
    scenario.guests().map(|(host, _)| host.name.as_str()).collect()
}

#[test]
fn flows_that_linux_cannot_carry_stay_models_and_it_is_said_why() {
    let linux = made("linux", &base(TWO, &[]), &[]).unwrap();
    assert_eq!(guests(&linux.scenario), ["a", "b"]);
    assert_eq!(
        linux.notes,
        ["the flows of `background` stay models: Linux 6.1.1 has no congestion control `nice`"]
    );
    assert_eq!((linux.scenario.seed, linux.scenario.clock.mode), (3, ClockMode::Virtual));
    for (set, why) in [
        ("flow.bulk.cc=cubic:beta=0.5", "parameters"),
        ("flow.bulk.tcp.mss=512B", "`tcp.mss` has no counterpart"),
        ("tcp.preset=1990-reno", "`tcp.preset` has no counterpart"),
        ("flow.bulk.max_window=4p", "`max_window` is for model hosts"),
    ] {
        let refused = made("linux", &base(TWO, &[set]), &[]).unwrap_err();
        assert!(refused.contains(why) && refused.contains("`nice`"), "{set}: {refused}");
    }
    let udp = base(&TWO.replace("start = \"1s..2s\"", "app = \"cbr\", rate = \"1Mbit/s\""), &[]);
    assert!(made("linux", &udp, &[]).unwrap_err().contains("sends no UDP by itself"));
    // What another flow of the same hosts needs is named with that flow, and one reason is said once.
    let call = "{ name = \"call\", app = \"cbr\", rate = \"1Mbit/s\", from = \"a\", to = \"b\" }, { name = \"other\", from = \"a\", to = \"b\" }";
    let beside = base(&TWO.replace("flow = [", &format!("flow = [ {call},")), &[]);
    let refused = made("linux", &beside, &[]).unwrap_err();
    assert!(
        refused.contains("the flows of `other`, `bulk` stay models: their hosts have flows of `call`, too: "),
        "{refused}"
    );
    // Wherever the other flow stands, and whichever of their hosts sends it: the kernel would send it, too.
    for own in
        ["from = \"a\", to = \"b\", cc = \"nice\"", "from = \"b\", to = \"a\", cc = \"cubic:beta=0.5\""]
    {
        let own = format!("{{ name = \"own\", {own} }},");
        let before = TWO.replace("flow = [", &format!("flow = [ {own}"));
        let after = TWO.replace("cc = \"nice\" },", &format!("cc = \"nice\" }}, {own}"));
        for text in [before, after] {
            let refused = made("linux", &base(&text, &[]), &[]).unwrap_err();
            assert!(refused.contains("their hosts have flows of `own`, too: "), "{refused}");
        }
    }
}

#[test]
fn both_get_the_same_settings() {
    let switched = base(TWO, &["tcp.sack=false", "tcp.tick=4ms"]);
    let linux = made("linux", &switched, &[]).unwrap().scenario;
    let sysctl = &linux.guests().next().unwrap().1.sysctl;
    assert_eq!(sysctl.get("net.ipv4.tcp_sack").map(String::as_str), Some("0"));
    assert!(sysctl.get("net.ipv4.tcp_rmem").is_some_and(|sizes| sizes.ends_with(" 33554432")));
    let model = made("model", &switched, &[]).unwrap().scenario;
    let tcp = serde_json::to_value(&model.tcp).unwrap();
    assert_eq!(
        tcp,
        serde_json::json!({"sack": false, "impatient": false, "tick": "4ms", "quick_acks": 16, "receive_buffer": "16777.216kB", "receive_ssthresh": "65.535kB"})
    );
    // Linux's Westwood counts in ticks, and so does the model in its place.
    let westwood = made("model", &base(TWO, &["flow.bulk.cc=westwood"]), &[]).unwrap();
    assert!(westwood.scenario.to_toml().contains("tick = \"10ms\""), "{}", westwood.scenario.to_toml());
    assert_eq!(westwood.notes.len(), 1);
}

#[test]
fn each_host_gets_its_own_settings() {
    let one = format!("{TWO}\n[[host]]\nname = \"b\"\ntcp = {{ sack = false }}\n");
    let linux = made("linux", &base(&one, &[]), &[]).unwrap().scenario;
    let sack = linux
        .guests()
        .map(|(host, guest)| (&*host.name, guest.sysctl.get("net.ipv4.tcp_sack").map(|on| &**on)));
    assert_eq!(sack.collect::<Vec<_>>(), [("a", None), ("b", Some("0"))]);
    // What a flow asks for, both of its ends get, and no model is left that would take it.
    let linux = made("linux", &base(TWO, &["flow.bulk.tcp.sack=false"]), &[]).unwrap().scenario;
    let off = linux.guests().map(|(_, guest)| guest.sysctl.get("net.ipv4.tcp_sack").map(|on| &**on));
    assert_eq!(off.collect::<Vec<_>>(), [Some("0"), Some("0")]);
    assert!(linux.flow.iter().all(|flow| flow.tcp.is_none()));
    // One kernel cannot have it both ways.
    let both = TWO.replace(
        "cc = \"nice\" },",
        "cc = \"nice\" }, { name = \"own\", from = \"a\", to = \"b\", tcp = { sack = false } },",
    );
    let refused = made("linux", &base(&both, &[]), &[]).unwrap_err();
    assert!(
        refused.contains("flows of `own`, too, with other `tcp` options, and `a` has one kernel for both"),
        "{refused}"
    );
}

#[test]
fn changes_in_one_way_come_last_and_must_be_right() {
    let linux = made("linux", &base(TWO, &[]), &["link.0.delay=15ms"]).unwrap();
    assert_eq!(linux.scenario.expand().links.iter().next().unwrap().kind.delay.as_millis(), 15);
    assert!(made("linux", &base(TWO, &[]), &["link.0.delay=soon"]).unwrap_err().starts_with("wrong: "));
}

#[test]
fn further_kernels_need_a_way_that_takes_them() {
    let kernel = Linux { name: Some("mine".to_owned()), ..linux() };
    let of = |ways: &[&str]| {
        let ways = ways.iter().map(|way| (*way).to_owned()).collect();
        let plan = Plan { ways, kernels: vec![kernel.clone()], ..plan() };
        let all = choices(&plan).map_err(|error| error.to_string())?;
        Ok::<_, String>(all.iter().map(Choice::label).collect::<Vec<_>>())
    };
    assert_eq!(of(&["linux", "model"]).unwrap(), ["linux", "linux@mine", "model"]);
    let refused = of(&["model", "real"]).unwrap_err();
    assert!(refused.contains("`mine`: add `linux`"), "{refused}");
}

#[test]
fn guests_become_models_unless_they_run_programs_or_forward() {
    let with = |keys: &str| format!("{TWO}\n[[host]]\nname = \"a\"\nendpoint = \"guest\"\n{keys}\n");
    let model =
        made("model", &base(&with("cc = \"reno\"\nsysctl = { \"net.ipv4.tcp_sack\" = \"0\" }"), &[]), &[])
            .unwrap();
    assert_eq!(guests(&model.scenario), [""; 0]);
    assert_eq!(model.scenario.flow[0].cc.as_ref().map(|cc| cc.name().to_owned()), Some("reno".to_owned()));
    assert_eq!(serde_json::to_value(model.scenario.host[0].endpoint.tcp()).unwrap()["sack"], false);
    for (keys, why) in [
        ("[[host.program]]\ncommand = \"true\"", "runs a program"),
        ("forwards = true", "queues of Linux's own"),
        ("sysctl = { \"net.ipv4.tcp_frto\" = \"0\" }", "tcp_frto = 0"),
    ] {
        let refused = made("model", &base(&with(keys), &[]), &[]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn programs_stand_for_bulk_flows_of_live_hosts() {
    let live = made("live", &base(TWO, &[]), &[]).unwrap();
    assert_eq!(live.ports, BTreeMap::from([(5001, "bulk".to_owned())]));
    assert_eq!(live.scenario.flow.len(), 1, "the flow of Nice stays");
    assert!(live.notes[0].contains("no congestion control `nice` loaded"), "{:?}", live.notes);
    let command = |host: &str| {
        let host = live.scenario.host.iter().find(|own| own.name == host).unwrap();
        assert!(matches!(host.endpoint, Endpoint::Live(_)));
        (host.programs()[0].command.to_string(), host.programs()[0].start)
    };
    assert_eq!(command("b").0, "/usr/bin/warpline load tcp-sink 5001");
    // It starts when the flow of this seed would, and stops at the end.
    let (sent, start) = command("a");
    let words: Vec<&str> = sent.split(' ').collect();
    assert_eq!((words[2], words[3], words[5..].join(" ")), ("tcp", "{b}:5001", "0 cubic".to_owned()));
    let (start, lasts) = (start.0.as_secs_f64(), words[4].parse::<f64>().unwrap());
    assert!((1.0..2.0).contains(&start) && (start + lasts - 9.0).abs() < 1e-6, "{start} {lasts}");
}

#[test]
fn a_program_whose_flow_stops_early_leaves_little_unsent() {
    for (change, last) in [("flow.bulk.stop=5s", "prompt"), ("flow.bulk.stop=9s", "cubic")] {
        let live = made("live", &base(TWO, &[change]), &[]).unwrap();
        let host = live.scenario.host.iter().find(|host| host.name == "a").unwrap();
        let command = host.programs()[0].command.to_string();
        assert!(command.ends_with(last), "{command}");
    }
}

#[test]
fn a_program_has_the_congestion_control_of_the_guest_that_it_stands_for() {
    let host = "[[host]]\nname = \"a\"\nendpoint = \"guest\"\ncc = \"reno\"\n";
    let live = made("live", &base(&format!("{TWO}\n{host}"), &[]), &[]).unwrap();
    let sender = live.scenario.host.iter().find(|host| host.name == "a").unwrap();
    assert!(sender.programs()[0].command.to_string().ends_with(" 0 reno"), "{sender:?}");
}

#[test]
fn flows_stay_where_they_are_when_programs_take_the_place_of_others() {
    let text = r#"
        duration = "5s"
        topology = { kind = "dumbbell", rtt = "20ms", bottleneck = { rate = "5Mbit/s" } }
        flow = [
          { name = "bulk", from = "left", to = "right", count = 2 },
          { name = "background", from = "left", to = "right", cc = "nice" },
        ]
    "#;
    let live = made("live", &base(text, &[]), &[]).unwrap();
    let expanded = live.scenario.expand();
    let [background] = &expanded.flows[..] else { panic!("{:?}", expanded.flows) };
    assert_eq!([&expanded.nodes[background.from], &expanded.nodes[background.to]], ["left.2", "right.2"]);
    assert_eq!(live.ports.len(), 2);
    // Several that take hosts in turn have no place of their own.
    let refused = made("live", &base(&text.replace("cc = \"nice\"", "cc = \"nice\", count = 2"), &[]), &[])
        .unwrap_err();
    assert!(refused.contains("`background.0` would be between other hosts"), "{refused}");
}

#[test]
fn what_is_kept_is_kept_by_all_that_made_it() {
    let base = base(TWO, &[]);
    let of = |machine: &Machine, way: &str| {
        let own = made(way, &base, &[]).unwrap();
        ran_by(machine, way, &own.scenario)
    };
    assert_eq!(of(&machine(), "model"), Ok("model-0.1.0-abc".to_owned()));
    // The flow of Nice stays a model; the programs run on this machine's kernel.
    assert_eq!(of(&machine(), "live"), Ok("live-6.18.1-0.1.0-abc".to_owned()));
    let newer = Machine { kernel: "6.19.1".to_owned(), ..machine() };
    assert_eq!(of(&newer, "model"), of(&machine(), "model"));
    assert_ne!(of(&newer, "live"), of(&machine(), "live"));
    let own = ran_by(&machine(), "linux@./mine/linux", &base.scenario);
    assert_eq!(own, Ok("linux@._mine_linux-0.1.0-abc".to_owned()));
}

#[test]
fn a_scenario_of_programs_has_a_round_trip_to_measure_queues_by() {
    let text = r#"
        duration = "9s"
        link = [
          { between = ["a", "r"], rate = "10Mbit/s", delay = "10ms" },
          { between = ["r", "b"], rate = "1Mbit/s", delay = "25ms" },
        ]
        [[host]]
        name = "a"
        endpoint = "guest"
        [[host.program]]
        command = "true"
    "#;
    let plan = plan();
    let observe = |_: f64, _: &str| Control::Continue;
    let workshop =
        |text: &str| Workshop { plan: &plan, base: base(text, &[]), bench: Bench::new(&plan, &observe) };
    assert_eq!(workshop(text).common(5.0).shortest_ms(), 50.0);
    // With flows, their shortest.
    assert_eq!(workshop(TWO).common(5.0).shortest_ms(), 20.0);
}

#[test]
fn the_machine_of_guests_that_was_held_back_most_counts() {
    use warpline_results::guests::{GuestCpu, GuestMachine, GuestSummary};
    let (plan, base) = (plan(), base(TWO, &[]));
    let own = made("real", &base, &[]).unwrap();
    let observe = |_: f64, _: &str| Control::Continue;
    let workshop = Workshop { plan: &plan, base, bench: Bench::new(&plan, &observe) };
    let way = *WAYS.iter().find(|way| way.name() == "real").unwrap();
    let held_back = |runs: &[&[Option<f64>]]| {
        let machine = |throttled: &Option<f64>| GuestMachine {
            cpu: throttled.map(|throttled| GuestCpu { share: 0.5, throttled, ..GuestCpu::default() }),
            ..GuestMachine::default()
        };
        let ran = |machines: &&[Option<f64>]| {
            let machines = machines.iter().map(machine).collect();
            let guests = Some(GuestSummary { machines, ..GuestSummary::default() });
            let summary = warpline_results::Summary { guests, ..Default::default() };
            Ran { summary, smoothed: BTreeMap::new(), load: None }
        };
        let runs: Vec<Ran> = runs.iter().map(ran).collect();
        let cpu = workshop.evidence(Choice { way, kernel: None }, &own, &runs, None).held_back;
        cpu.map(|cpu| (cpu.share, cpu.throttled))
    };
    assert_eq!(held_back(&[&[None]]), None);
    assert_eq!(held_back(&[&[Some(0.1), None], &[Some(0.0), Some(0.7)]]), Some((0.5, 0.7)));
}

/// A run with a smaller 99th percentile may have lagged all the same, and one with less other work may have been short of processors.
#[test]
fn the_run_that_did_not_keep_pace_stands_for_the_others() {
    use warpline_results::live::{AuditSummary, LatenessSummary, LiveSummary};
    let (plan, base) = (plan(), base(TWO, &[]));
    let own = made("real", &base, &[]).unwrap();
    let observe = |_: f64, _: &str| Control::Continue;
    let workshop = Workshop { plan: &plan, base, bench: Bench::new(&plan, &observe) };
    let way = *WAYS.iter().find(|way| way.name() == "real").unwrap();
    let ran = |p99_us: f64, late_packets: u64, busy: f64, waited: f64| {
        let lateness =
            LatenessSummary { packets: 10_000, p99_us, late_packets, ..LatenessSummary::default() };
        let audit = AuditSummary { lateness, ..AuditSummary::default() };
        let live = Some(LiveSummary { audit, ..LiveSummary::default() });
        let summary = warpline_results::Summary { live, ..Default::default() };
        let load = Some(Load { cores: 2.0, busy, own: 0.0, waited: Some(waited) });
        Ran { summary, smoothed: BTreeMap::new(), load }
    };
    let [calm, late] = [ran(300.0, 0, 1.2, 0.1), ran(100.0, 50, 0.1, 0.6)];
    let evidence = workshop.evidence(Choice { way, kernel: None }, &own, &[calm, late], None);
    assert_eq!(evidence.audit.map(|audit| audit.lateness.late_packets), Some(50));
    assert!(evidence.load.is_some_and(|load| load.is_short()));
}

#[test]
fn settings_of_hosts_that_a_way_does_not_have_are_not_left_out_without_a_word() {
    let host = |keys: &str| base(&format!("{TWO}\n[[host]]\nname = \"b\"\n{keys}"), &[]);
    // Nothing stands for the options of a model host in a namespace.
    let live = made("live", &host("tcp = { sack = false }"), &[]).unwrap_err();
    assert!(live.contains("`tcp.sack` has no counterpart in a program"), "{live}");
    // Without a share, its period says nothing in lock-step.
    let guest = "clock = { mode = \"dilated\", tdf = 2 }";
    let guest = base(
        &format!(
            "{guest}\n{TWO}\n[[host]]\nname = \"b\"\nendpoint = \"guest\"\ncpu_share = 0.5\ncpu_period = \"20ms\""
        ),
        &[],
    );
    let linux = made("linux", &guest, &[]).unwrap().scenario;
    assert!(linux.guests().all(|(_, guest)| guest.cpu_share.is_none() && guest.cpu_period.is_none()));
    let dilated = made("dilated", &guest, &[]).unwrap().scenario;
    assert!(dilated.guests().any(|(_, guest)| guest.cpu_share.is_some() && guest.cpu_period.is_some()));
}

/// Each stack in a shared object is a part of the name, by what its file holds.
#[cfg(live)]
#[test]
fn another_build_of_a_stack_has_results_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        format!("{TWO}\n[[host]]\nname = \"a\"\nendpoint = \"stack:object\"\nlibrary = \"./mine.so\"\n");
    let source = Source::from_text("two.toml", &text, directory.path());
    let base = Base::new(&source, &[]).unwrap_or_else(|wrong| panic!("{wrong}"));
    let name = || ran_by(&machine(), "model", &base.scenario);
    assert!(name().unwrap_err().contains("mine.so"));
    let with = |build: &str| {
        std::fs::write(directory.path().join("mine.so"), build).unwrap();
        name().unwrap()
    };
    let (first, second) = (with("one"), with("other"));
    assert!(first.starts_with("model-mine-") && first.ends_with("-0.1.0-abc"), "{first}");
    assert_ne!(first, second);
}

#[test]
fn a_certificate_is_as_its_schema_says_and_names_what_it_cites() {
    let base = base(TWO, &[]);
    let plan = plan();
    let value = |mean| Value { mean, ci95: Some(0.1), n: 2 };
    let compared = Compared {
        subject: "flow <bulk>".to_owned(),
        quantity: "goodput",
        unit: warpline_results::Unit::BitPerSecond,
        value: value(1e6),
        reference: value(2e6),
        difference_percent: -50.0,
        ci95_percent: Some(1.0),
        verdict: Verdict::Differs,
    };
    let pair = |explanation| Pair {
        way: "model".to_owned(),
        reference: "linux".to_owned(),
        bound_percent: 5.0,
        compared: vec![compared.clone()],
        explanation,
    };
    let experiment = Experiment {
        what: "with Reno".to_owned(),
        verdict: Verdict::Agrees,
        worst_percent: 1.0,
        from: "the congestion control".to_owned(),
    };
    let explanation = || Explanation {
        experiments: vec![experiment.clone()],
        ..Explanation::new(Cause::Model, vec!["linux repeats".to_owned()])
    };
    let ways = || {
        let mut linux = WayFacts::new("linux", "Linux", Vec::new());
        linux.fill(
            &made("linux", &base, &[]).unwrap(),
            &[Ran { summary: Default::default(), smoothed: BTreeMap::new(), load: None }],
            &Evidence::default(),
        );
        let mut live = WayFacts::new("live", "this machine", vec!["seed=2".to_owned()]);
        live.not_possible = Some("no root".to_owned());
        vec![linux, live]
    };
    let certificate = Certificate::new(&plan, &base, ways(), vec![pair(Some(explanation()))]);
    assert_eq!(certificate.outcome, Outcome::Explained);
    let json: serde_json::Value = serde_json::from_str(&certificate.to_json()).unwrap();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
    let (page, text) = (certificate.to_html(), certificate.render(false));
    for part in [
        "2026-11-26",
        &base.hash,
        "0.1.0-abc",
        "a processor",
        "Linux 6.18.1",
        "the model",
        "not possible: no root",
        "duration=9s",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("&lt;bulk&gt;") && !page.contains("<bulk>"));
    for part in [
        "-50.0 ± 1.0 %, DIFFERS",
        "it comes from the model",
        "with Reno, they agree (at most 1.0 %): it comes from the congestion control",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Ways of which nothing is known do not agree.
    let silent = Pair { compared: Vec::new(), ..pair(None) };
    let unknown = Certificate::new(&plan, &base, ways(), vec![pair(Some(explanation())), silent]);
    assert_eq!(unknown.outcome, Outcome::Nothing);
    for text in [unknown.to_html(), unknown.render(false), unknown.to_markdown()] {
        assert!(text.contains("nothing could be compared: they have no measure in common"), "{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&unknown.to_json()).unwrap();
    assert_eq!((&json["outcome"], validator.is_valid(&json)), (&"nothing".into(), true));
    assert_eq!(Certificate::new(&plan, &base, ways(), Vec::new()).outcome, Outcome::Nothing);
    // What is within chance is not known to agree.
    let noisy = Compared { verdict: Verdict::Chance, ci95_percent: Some(70.0), ..compared.clone() };
    let noisy = Pair { compared: vec![noisy], ..pair(None) };
    let unsure = Certificate::new(&plan, &base, ways(), vec![noisy]);
    assert_eq!(unsure.outcome, Outcome::Chance);
    assert!(unsure.to_html().contains("differ by no more than chance, and more seeds would tell"));
    let json: serde_json::Value = serde_json::from_str(&unsure.to_json()).unwrap();
    assert_eq!((&json["outcome"], validator.is_valid(&json)), (&"chance".into(), true));
    // The worst counts: what is not explained, and a way that failed.
    let open = Certificate::new(&plan, &base, ways(), vec![pair(None)]);
    assert_eq!(open.outcome, Outcome::Unexplained);
    assert!(open.render(false).contains("not explained"));
    // A simulation that does not repeat can be relied on no more than one that failed.
    let mut unsteady = ways();
    unsteady[0].repeats = Some(false);
    let unsteady = Certificate::new(&plan, &base, unsteady, vec![pair(Some(explanation()))]);
    assert_eq!(unsteady.outcome, Outcome::Failed);
    assert!(unsteady.to_html().contains("cannot be relied on: one failed, or does not repeat"));
    // What is within chance says nothing of where a difference comes from.
    let unknown = Experiment { verdict: Verdict::Chance, worst_percent: 30.0, ..experiment.clone() };
    let chance = Explanation { experiments: vec![unknown], ..explanation() };
    assert_eq!(chance.narrowed(), None);
    let told = Certificate::new(&plan, &base, ways(), vec![pair(Some(chance))]).render(false);
    assert!(told.contains("with Reno, the difference (up to 30.0 %) is within chance"), "{told}");
    let mut failed = ways();
    failed[0].failed = Some("seed 1: it died".to_owned());
    assert_eq!(Certificate::new(&plan, &base, failed, Vec::new()).outcome, Outcome::Failed);
}
