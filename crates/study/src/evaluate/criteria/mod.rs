//! The questions of RFC 9743 that runs can answer. A new one is a file beside this one, and its name in the list.

/// Each module of the list, and the list of their criteria.
macro_rules! criteria {
    ($($file:ident),+ $(,)?) => {
        $( mod $file; )+

        /// All questions, in the order of the RFC.
        pub const CRITERIA: &[super::Criterion] = &[ $( $file::CRITERION, )+ ];
    };
}

criteria! {
    backoff,
    queueing,
    losses,
    itself,
    latecomer,
    round_trips,
    short_flows,
    coexistence,
    real_time,
    media,
    other_short_flows,
    full_use,
    random_losses,
    varying_rate,
    aqm,
    varying_delay,
    slow_path,
    long_path,
    reordering,
    transients,
    path_change,
    data_centre,
}
