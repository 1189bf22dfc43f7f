//! What a page leads to is there: the file and, in another page or its own, the heading.

use std::fs;

use crate::shown::pages;

/// The lines outside of fenced blocks, with their numbers.
pub fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    let lines = page.lines().zip(1..).filter(move |(line, _)| {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    });
    lines.map(|(line, number)| (number, line))
}

/// By which a heading is found, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|&c| c.is_alphanumeric() || "-_ ".contains(c));
    kept.collect::<String>().replace(' ', "-")
}

fn has(page: &str, wanted: &str) -> bool {
    prose(page).any(|(_, line)| line.starts_with('#') && anchor(line) == wanted)
}

#[test]
fn every_link_of_the_pages_leads_to_a_file_and_a_heading() {
    let (mut checked, mut nowhere) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let links = prose(&text).flat_map(|(number, line)| {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            targets.filter(|target| !target.contains("://")).map(move |target| (number, target))
        });
        for (number, target) in links {
            let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            let heading = || fs::read_to_string(&to).is_ok_and(|there| has(&there, wanted));
            checked += 1;
            if !to.exists() || !wanted.is_empty() && !heading() {
                nowhere.push(format!("{}:{number}: {target}", page.display()));
            }
        }
    }
    assert!(checked > 100, "only {checked} links were found in the pages");
    assert!(nowhere.is_empty(), "{nowhere:#?}");
}
