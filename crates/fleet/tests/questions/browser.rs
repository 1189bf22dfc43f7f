//! The page in Chromium, as wide as on a desk and on a phone.

use std::fs;
use std::path::Path;
use std::process::Command;

use transom_testbed::{chromium, has};

const DESK: u32 = 1280;
const PHONE: u32 = 390;

/// Chromium's own windows are never narrower than 500, so the page is in a frame. The title says how
/// wide it became, and how wide the tables are that are to be read without moving them: on a desk all.
fn frame(file: &Path, width: u32, height: u32) -> String {
    let tables = if width == DESK { "table" } else { ".gates" };
    format!(
        "<!doctype html><title>?</title><body style=\"margin:0\">\
         <iframe style=\"border:0\" width={width} height={height} src=\"file://{}\" onload=\"measure(this)\">\
         </iframe><script>function measure(frame) {{\
         const page = frame.contentDocument;\
         const widths = [...page.querySelectorAll('{tables}')].map(table => table.scrollWidth);\
         document.title = `wide ${{Math.max(page.documentElement.scrollWidth, ...widths)}}`; }}</script>",
        file.display()
    )
}

fn chromium_says(chromium: &Path, words: &[String]) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-sync", "--hide-scrollbars"])
        .arg("--allow-file-access-from-files")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Draws the page beside its file, `NAME-desk.png` and `NAME-phone.png`, and is sure that nothing of
/// it is wider than the screen; of these heights.
pub fn draws(file: &Path, heights: [u32; 2]) {
    let Some(chromium) = has("chromium").then(chromium).flatten() else { return };
    let name = file.file_stem().unwrap().to_str().unwrap();
    for (screen, width, height) in [("desk", DESK, heights[0]), ("phone", PHONE, heights[1])] {
        let framed = file.with_file_name(format!("{name}-{screen}.html"));
        fs::write(&framed, frame(file, width, height)).unwrap();
        let address = format!("file://{}", framed.display());
        let said = chromium_says(&chromium, &["--dump-dom".to_owned(), address.clone()]);
        let wide = said.split("<title>wide ").nth(1).and_then(|text| text.split('<').next());
        let wide: u32 = wide.expect("the page was measured").parse().unwrap();
        assert!(wide <= width, "on a {screen} of {width} it is {wide} wide");
        let picture = framed.with_extension("png");
        let size = format!("--window-size={},{height}", width.max(500));
        chromium_says(&chromium, &[format!("--screenshot={}", picture.display()), size, address]);
        assert!(fs::metadata(&picture).unwrap().len() > 10_000, "a picture with something in it");
    }
}
