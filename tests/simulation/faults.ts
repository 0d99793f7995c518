import type { Schedule } from "./schedule.ts";

/** What clients ask and what breaks, and when all of it ends. */
export function planFaults(schedule: Schedule): void {
  const { world, faults_ms } = schedule;
  const sometime = (times: number, run: () => void) => {
    for (let i = 0; i < times; i++) world.after(world.between(0, faults_ms), run);
  };
  /** Half of the schedules have this kind of fault, each up to so many times. */
  const perhaps = (most: number, name: string, run: () => void) => {
    if (!world.chance(0.5)) return;
    sometime(world.between(1, most), () => {
      world.count(name);
      run();
    });
  };
  const skew = (): number => {
    const most = world.chance(0.2) ? 180_000 : 5_000;
    return world.between(-most, most);
  };

  // Jobs come all the time or in one burst.
  const burst = world.chance(0.2);
  for (const account of schedule.accounts.values()) {
    const jobs = world.between(1, burst ? 25 : 10);
    const submits = () => schedule.clients.submits(account, { queue_timeout_s: world.between(30, 120) });
    if (burst) world.after(world.between(0, faults_ms), () => Array.from({ length: jobs }, submits));
    else sometime(jobs, submits);
    perhaps(2, "account evicted", () => account.evict());
    perhaps(2, "account clock set", () => account.setClock(skew()));
    if (world.chance(0.1)) {
      world.after(world.between(0, faults_ms), () => {
        world.count("account suspended");
        schedule.clients.suspends(account, true);
        world.after(world.between(1_000, 20_000), () => schedule.clients.suspends(account, false));
      });
    }
    if (world.chance(0.1)) sometime(1, () => schedule.clients.upgrades(account));
  }
  for (const fleet of schedule.fleets.values()) {
    perhaps(2, "fleet evicted", () => fleet.evict());
    perhaps(2, "fleet clock set", () => fleet.setClock(skew()));
  }
  const deploys = () => {
    for (const account of schedule.accounts.values()) account.evict();
    for (const fleet of schedule.fleets.values()) fleet.evict();
  };
  if (world.chance(0.3)) perhaps(2, "deploy", deploys);
  if (world.chance(0.3)) perhaps(1, "everybody cut off", () => world.cut(world.between(5_000, 30_000)));

  for (const runner of schedule.runners.values()) {
    const { machine } = runner;
    const bootsLater = () => world.after(world.between(500, 30_000), () => runner.boots());
    perhaps(2, "runner dies", () => {
      runner.dies();
      bootsLater();
    });
    if (world.chance(0.5)) perhaps(2, "runner freezes", () => runner.freezes(world.between(1_000, 40_000)));
    if (world.chance(0.5)) perhaps(1, "runner cut off", () => world.cut(world.between(5_000, 30_000), machine.name));
    if (world.chance(0.2))
      perhaps(1, "runner can't be reached", () => world.deafen(world.between(5_000, 100_000), machine.name));
    if (world.chance(0.5))
      perhaps(1, "runner drains", () => {
        runner.drains();
        world.after(world.between(20_000, 60_000), () => runner.boots());
      });
    perhaps(2, "engine loses seats", () => {
      runner.engineHas(world.between(0, machine.seats - 1));
      world.after(world.between(1_000, 30_000), () => runner.engineHas(machine.seats));
    });
    if (world.chance(0.3))
      perhaps(2, "engine knows other classes", () => {
        runner.engineKnows(world.chance(0.5) ? ["SaveImage"] : ["Rare"]);
        world.after(world.between(1_000, 30_000), () => runner.engineKnows(machine.classes));
      });
    if (world.chance(0.3))
      perhaps(1, "runner drained by its operator", () => {
        schedule.fleet(machine.pool).run((pool, now) => pool.drain(machine.runner_id, now));
        world.after(world.between(20_000, 60_000), () => {
          // What an operator took out of service comes back by an enrolment.
          schedule.enrols(runner);
          runner.boots();
        });
      });
    if (world.chance(0.3))
      perhaps(1, "runner revoked", () => {
        const fleet = schedule.fleet(machine.pool);
        fleet.run((pool, now) => pool.revoke(machine.runner_id, now));
        world.after(world.between(500, 30_000), () => {
          runner.dies();
          machine.runner_id = `${machine.runner_id}+`;
          schedule.enrols(runner);
          runner.boots();
        });
      });
  }

  world.after(faults_ms, () => {
    world.note("FAULTS END");
    world.faulty = false;
    for (const runner of schedule.runners.values()) {
      runner.engineHas(runner.machine.seats);
      runner.engineKnows(runner.machine.classes);
      runner.boots();
    }
    for (const fleet of schedule.fleets.values()) fleet.setClock(0);
    for (const account of schedule.accounts.values()) {
      account.setClock(0);
      schedule.clients.suspends(account, false);
    }
  });
}
