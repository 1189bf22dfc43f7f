//! Files with the times at which links can send, read in the place of their names.

use std::path::Path;

use transom_emulator::plan::{self, Direction, Trace};
use transom_output::text_up_to;

use super::Experiment;
use super::problem::Problem;

/// Of a file of times: enough for hours of 100 Mbit/s.
const MOST_MIB: u64 = 256;

/// Names are relative to `folder`, that of the experiment.
pub(super) fn read(experiment: &mut Experiment, folder: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    read_path("path", &mut experiment.path, folder, &mut problems);
    for (name, host) in &mut experiment.hosts {
        for (key, path) in [("cellular", &mut host.cellular), ("link", &mut host.link)] {
            if let Some(path) = path {
                read_path(&format!("hosts.{name}.{key}"), path, folder, &mut problems);
            }
        }
    }
    problems
}

fn read_path(at: &str, path: &mut plan::Path, folder: &Path, problems: &mut Vec<Problem>) {
    for (way, direction) in [("up", &mut path.up), ("down", &mut path.down)] {
        let at = format!("{at}.{way}");
        read_stage(&at, direction, folder, problems);
        for (index, stage) in direction.stages.iter_mut().enumerate() {
            read_stage(&format!("{at}.stages.{index}"), stage, folder, problems);
        }
    }
}

fn read_stage(at: &str, stage: &mut Direction, folder: &Path, problems: &mut Vec<Problem>) {
    let Some(name) = stage.trace.as_ref().and_then(|trace| trace.file.as_ref()) else { return };
    let file = folder.join(name);
    let text = text_up_to(&file, MOST_MIB).map_err(|error| error.to_string());
    match text.and_then(|text| Trace::parse(&text)) {
        Ok(trace) => stage.trace = Some(trace),
        Err(error) => {
            let what = format!("{}: {error}", file.display());
            let remedy = "name a file with one time in ms per line, as Mahimahi has them";
            problems.push(Problem::new(format!("{at}.trace.file"), what, remedy));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use crate::made_up::EXPERIMENT;

    #[test]
    fn the_times_of_a_file_take_the_place_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        put("lte.trace", "1\n5\n5\n");
        put("odd.trace", "1\nfive\n");
        let with = |lines: &str| {
            put("x.toml", &format!("{EXPERIMENT}\n{lines}"));
            load(folder.path().join("x.toml"))
        };
        let loaded = with("[hosts.b.link.up]\ntrace.file = \"lte.trace\"").unwrap();
        let link = loaded.full[0].experiment.hosts["b"].link.clone().unwrap();
        let trace = link.up.trace.unwrap();
        assert_eq!((trace.file, trace.ms), (None, vec![1, 5, 5]));
        for (name, says) in
            [("odd", "odd.trace: line 2: \"five\" is no whole"), ("no", "No such file")]
        {
            let line = format!("[hosts.b.link.up]\ntrace.file = \"{name}.trace\"");
            let error = with(&line).unwrap_err().to_string();
            assert!(error.contains("`hosts.b.link.up.trace.file`: "), "{error}");
            assert!(error.contains(says), "{error}");
            assert_eq!(error.lines().count(), 1, "told once, and not for each point: {error}");
        }
    }
}
