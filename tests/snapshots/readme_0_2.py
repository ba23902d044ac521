"""The script of the README of 0.2, as it was printed there."""

import keyshift as ks

w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
problem = ks.KeyGroupAllocation(w, max_migrations=1)

s = ks.solve(problem)  # warm-started, improved, proven
print(s.assignment, s.objective, s.bound, s.status)

print(ks.compare(problem))  # every method on one instance: objective, bound, gap, migrations, seconds
ks.check(problem, [0, 1, 0, 1])  # no solver behind it

plan = s.plan(bandwidth=2)  # which key group goes where and when; no node is overloaded on the way
plan.moves, plan.save("plan.json"), plan.undo()

m = ks.model(problem, "pyomo")  # the statement itself: read it, add a rule of yours, hand it to any solver
m.write("allocation.mps")

study = ks.study(ks.family("madsen-allocation", nodes=[20, 40], count=10), ["milp", "flux"], time_limit=5)
study.summary()  # gaps over many instances, with intervals; study.report("study.html")
