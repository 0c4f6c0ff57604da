//! The questions of RFC 9743 that runs can answer, and some of our own. A new one is a file beside this one, and its name in the list.

/// Each module of the list, and the lists of their criteria.
macro_rules! criteria {
    ($($file:ident),+ ; by name: $($named:ident),+) => {
        $( mod $file; )+
        $( mod $named; )+

        /// What is asked of every algorithm: the RFC's questions in its order, then our own.
        pub const CRITERIA: &[super::Criterion] = &[ $( $file::CRITERION, )+ ];

        /// What is asked by name only: questions about a kind of algorithm that not every algorithm is.
        pub const BY_NAME: &[super::Criterion] = &[ $( $named::CRITERION, )+ ];
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
    false_acks,
    hidden_congestion,
    reordering,
    transients,
    path_change,
    data_centre,
    policer;
    by name: background, several_paths
}
