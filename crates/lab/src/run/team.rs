//! The processes of a run, if it has its parts in several. The first one writes the results.

use serde::Serialize;
use serde::de::DeserializeOwned;
use warpline_net::apart::{MeetError, Processes, agree, gather, share};
use warpline_scenario::Scenario;

use super::RunError;

/// The processes of a run as one of them sees them; none if it is alone.
pub(super) struct Team<'a>(Option<&'a mut dyn Processes>);

impl<'a> Team<'a> {
    /// The team of a run in one process.
    pub(super) fn alone() -> Self {
        Team(None)
    }

    /// A team of several.
    ///
    /// # Errors
    /// In all processes, if they were not all given the same scenario, seed and version of Warpline.
    pub(super) fn new(scenario: &Scenario, processes: &'a mut dyn Processes) -> Result<Self, RunError> {
        let given = [
            ("version of Warpline", env!("CARGO_PKG_VERSION").to_owned()),
            ("scenario", scenario.scenario_hash()),
            ("seed", scenario.seed.to_string()),
        ];
        let all = share(processes, &given.each_ref().map(|(_, value)| value.clone()))?;
        for (process, other) in all.iter().enumerate() {
            let differs = |(place, _): &(usize, &(&str, String))| other[*place] != all[0][*place];
            if let Some((_, (what, _))) = given.iter().enumerate().find(differs) {
                return Err(RunError::Build(format!(
                    "process {process} was given another {what} than process 0; all need the same"
                )));
            }
        }
        Ok(Team(Some(processes)))
    }

    /// Whether this process writes the results.
    pub(super) fn is_first(&self) -> bool {
        self.0.as_ref().is_none_or(|processes| processes.own() == 0)
    }

    /// The number of this process, and how many there are.
    pub(super) fn places(&self) -> (usize, usize) {
        self.0.as_ref().map_or((0, 1), |processes| (processes.own(), processes.count()))
    }

    /// Goes on only if all processes can.
    ///
    /// # Errors
    /// If one cannot: its own error there, and [`RunError::Elsewhere`] in the others.
    pub(super) fn agree<T>(&mut self, own: Result<T, RunError>) -> Result<T, RunError> {
        match &mut self.0 {
            None => own,
            Some(processes) => {
                agree(*processes, own, |process, message| RunError::Elsewhere { process, message })?
            }
        }
    }

    /// The processes, if there are several.
    pub(super) fn processes(&mut self) -> Option<&mut (dyn Processes + 'a)> {
        self.0.as_deref_mut()
    }

    /// Brings what each process has to say to the first one. It gets all, in the order of processes; the others get nothing.
    ///
    /// # Errors
    /// If a process has ended.
    pub(super) fn gather<T: Serialize + DeserializeOwned>(
        &mut self,
        own: T,
    ) -> Result<Option<Vec<T>>, MeetError> {
        match &mut self.0 {
            None => Ok(Some(vec![own])),
            Some(processes) => gather(*processes, own),
        }
    }

    /// Whether any process says yes.
    ///
    /// # Errors
    /// If a process has ended.
    pub(super) fn any(&mut self, own: bool) -> Result<bool, MeetError> {
        match &mut self.0 {
            None => Ok(own),
            Some(processes) => Ok(share(*processes, &own)?.contains(&true)),
        }
    }
}
