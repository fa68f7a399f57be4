// Command karpenter measures one pass of Karpenter's scheduling over pods that wait, as upstream's own benchmark does: a topology, a
// scheduler and Solve, with one worker, which is Karpenter's default. It reads a Question and writes an Answer.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	kwokoptions "sigs.k8s.io/karpenter/kwok/options"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

type question struct {
	Types string        `json:"types"` // a file of instance types, as Karpenter's kwok provider reads it
	Pool  *v1.NodePool  `json:"pool"`
	Pods  []*corev1.Pod `json:"pods"`
}

type answer struct {
	Seconds float64 `json:"seconds"` // processor time of all threads
	Claims  int     `json:"claims"`
	Errors  int     `json:"errors"`
}

type silent struct{}

func (silent) Publish(...events.Event) {}

func processorTime() time.Duration {
	usage := syscall.Rusage{}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func defaults(ctx context.Context) context.Context {
	given := &options.Options{}
	flags := &options.FlagSet{FlagSet: flag.NewFlagSet("karpenter", flag.ContinueOnError)}
	given.AddFlags(flags)
	if err := given.Parse(flags); err != nil {
		log.Fatal(err)
	}
	return options.ToContext(ctx, given)
}

func main() {
	asked := question{}
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = json.Unmarshal(text, &asked)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctrllog.SetLogger(logr.Discard())
	ctx := kwokoptions.ToContext(defaults(context.Background()), &kwokoptions.Options{InstanceTypesFilePath: asked.Types})
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.Fatal(err)
	}
	pools := []*v1.NodePool{asked.Pool}
	byPool := map[string][]*cloudprovider.InstanceType{asked.Pool.Name: types}
	client := fake.NewClientBuilder().Build()
	provider := kwok.NewCloudProvider(ctx, client, types)
	runtime.GC()

	began := processorTime()
	cluster := state.NewCluster(clock.RealClock{}, client, provider)
	oneWorker := scheduling.NumConcurrentReconciles(1)
	topology, err := scheduling.NewTopology(ctx, client, cluster, nil, pools, byPool, asked.Pods, oneWorker)
	if err != nil {
		log.Fatal(err)
	}
	scheduler := scheduling.NewScheduler(ctx, client, pools, cluster, nil, topology, byPool, nil, silent{}, clock.RealClock{}, nil, nil, oneWorker)
	result, err := scheduler.Solve(ctx, asked.Pods)
	if err != nil {
		log.Fatal(err)
	}
	found := answer{Claims: len(result.NewNodeClaims), Errors: len(result.PodErrors)}
	found.Seconds = (processorTime() - began).Seconds()
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}
