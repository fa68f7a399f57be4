// Decisions of kube-scheduler for scenarios in the format of the conformance vectors: one JSON object a line is read
// from standard input and written back with its result. The real plugins, cache, snapshot and queue run in process,
// without an API server and without goroutines of informers. Modes: full, preempt, dra, queue,
// sampled, gang, configuration; and timed, which measures.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func run(scenario M) (result M) {
	gates := M{}
	if c, ok := scenario["config"].(M); ok {
		if g, ok := c["featureGates"].(M); ok {
			gates = g
		}
	}
	before := map[string]bool{}
	for gate := range gates {
		before[gate] = utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(gate))
	}
	set := func(values map[string]bool) { check(utilfeature.DefaultMutableFeatureGate.SetFromMap(values)) }
	now := map[string]bool{}
	for gate, on := range gates {
		now[gate] = on.(bool)
	}
	if scenario["mode"] == "gang" {
		before["SchedulerAsyncAPICalls"], now["SchedulerAsyncAPICalls"] = true, false // calls end within their attempt
	}
	set(now)
	defer set(before)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result = M{"name": scenario["name"], "mode": scenario["mode"]}
	steps := []any{}
	defer func() {
		if e := recover(); e != nil {
			if os.Getenv("DEBUG") != "" {
				panic(e)
			}
			result["panic"] = fmt.Sprint(e)
			if result["steps"] == nil {
				result["steps"] = steps
			}
		}
	}()
	if scenario["mode"] == "configuration" {
		runConfiguration(ctx, scenario["yaml"].(string), result)
		return result
	}
	if scenario["mode"] == "queue" {
		runQueue(ctx, scenario, gates, result)
		return result
	}
	if scenario["mode"] == "timed" {
		runTimed(ctx, scenario, result)
		return result
	}
	if scenario["mode"] == "sampled" || scenario["mode"] == "gang" {
		runAttempts(ctx, scenario, result)
		return result
	}
	w := newWorld(ctx, scenario)
	w.mode, _ = scenario["mode"].(string)
	w.namespace("default", nil)
	for _, o := range objectsOf(scenario) {
		w.object(o)
	}
	plugins := w.first.ListPlugins()
	filters, scores, weights := []any{}, []any{}, M{}
	for _, p := range plugins.Filter.Enabled {
		filters = append(filters, p.Name)
	}
	for _, p := range plugins.Score.Enabled {
		scores = append(scores, p.Name)
		weights[p.Name] = p.Weight
	}
	result["filterPlugins"], result["scorePlugins"], result["weights"] = filters, scores, weights
	for _, s := range scenario["steps"].([]any) {
		step := s.(M)
		before := w.claims()
		if step["op"] == "schedule" {
			one := w.schedule(step, scenario["mode"] == "preempt")
			if w.mode == "dra" {
				put(one, "claims", w.changed(before))
				put(one, "writes", strs(w.writes.done))
				if one["preBind"] == nil {
					put(one, "extendedClaim", w.writes.extendedClaim)
				}
			}
			steps = append(steps, one)
		} else if slices.Contains([]any{"releaseClaims", "deleteClaim", "reportDevices"}, step["op"]) || w.mode == "dra" && strings.HasSuffix(step["op"].(string), "Pod") {
			one := M{"op": step["op"]}
			if w.apply(step) {
				one["absent"] = true
			}
			put(one, "claims", w.changed(before))
			steps = append(steps, one)
		} else {
			one := M{"op": step["op"]}
			if w.apply(step) {
				one["absent"] = true
			}
			steps = append(steps, one)
		}
	}
	result["steps"] = steps
	return result
}

func main() {
	klog.SetOutput(os.Stderr)
	klog.LogToStderr(false)
	metrics.Register()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			var v M
			check(json.Unmarshal(line, &v))
			scenario := v
			if s, ok := v["scenario"].(M); ok {
				scenario = s
			}
			b, _ := json.Marshal(M{"scenario": scenario, "result": run(scenario)})
			out.Write(b)
			out.WriteByte('\n')
		}
		if err != nil {
			return
		}
	}
}
