fn main() {
    for path in std::env::args().skip(1) {
        let mut recording = transom_analysis::Recording::default();
        for event in transom_trace::Reader::open(std::path::Path::new(&path)).unwrap() {
            recording.push(&event.unwrap());
        }
        let all = transom_analysis::analyse(&recording);
        let c = recording.connection(all[0].cookie).unwrap();
        let t = std::time::Instant::now();
        let name = std::path::Path::new(&path).file_stem().unwrap().to_string_lossy().into_owned();
        match transom_predict::fit(c, &all[0], &recording) {
            Err(e) => println!("{name}: {e}"),
            Ok(m) => {
                println!("{name} [{:?}] {:.1}s {:.1} Mbit/s {:.0}ms", all[0].verdict.cause, m.seconds, all[0].summary.goodput_up/1e6, t.elapsed().as_secs_f64()*1e3);
                for (n, u, k, p) in m.parameters() { println!("    {n:18} {:10.3} [{:.3} {:.3}] {u}", p.value*k, p.low*k, p.high.map_or(f64::INFINITY, |h| h*k)); }
                let mut prog = format!("{:?}", m.program); prog.truncate(150);
                println!("    {:?} {:?} {prog} {:?} {:?}", m.sender, m.receiver.gro, m.notes, m.path.loss_burst);
            }
        }
    }
}
