// Resource claims: what controllers, drivers and the API server do with them, and how results tell of them.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

var (
	claimResource = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}
	podResource   = schema.GroupResource{Resource: "pods"}
)

// The writes of a step, the one that is refused, and what drivers report of devices that it allocates.
type writes struct {
	done          []string
	counts        map[string]int
	refused       M
	conditions    []metav1.Condition
	extendedClaim any
}

func newWrites(step M) *writes {
	w := &writes{counts: map[string]int{}}
	w.refused, _ = step["failWrite"].(M)
	w.conditions = conditionsOf(step)
	return w
}

func conditionsOf(step M) (conditions []metav1.Condition) {
	b, _ := json.Marshal(step["conditions"])
	check(json.Unmarshal(b, &conditions))
	return conditions
}

// An error if the write is refused.
func (w *writes) write(kind, namespace, name, more string) error {
	w.done = append(w.done, kind+" "+namespace+"/"+name+more)
	w.counts[kind]++
	if w.refused["write"] != kind || int(w.refused["nth"].(float64)) != w.counts[kind] {
		return nil
	}
	resource := claimResource
	if kind == "patchPod" {
		resource = podResource
	}
	switch w.refused["reason"] {
	case "internal":
		return apierrors.NewInternalError(errors.New("no luck"))
	case "forbidden":
		return apierrors.NewForbidden(resource, name, errors.New("not allowed"))
	}
	return apierrors.NewConflict(resource, name, errors.New("the object has been modified"))
}

func (w *world) patchPod(a clienttesting.Action) (bool, runtime.Object, error) {
	action := a.(clienttesting.PatchActionImpl)
	if err := w.writes.write("patchPod", action.GetNamespace(), action.GetName(), ""); err != nil {
		return true, nil, err
	}
	patch := M{}
	check(json.Unmarshal(action.GetPatch(), &patch))
	w.writes.extendedClaim = patch["status"].(M)["extendedResourceClaimStatus"]
	return true, &v1.Pod{}, nil
}

func (w *world) writeClaim(a clienttesting.Action) (bool, runtime.Object, error) {
	var kind, name, more string
	switch action := a.(type) {
	case clienttesting.UpdateActionImpl:
		kind, name = "update", action.GetObject().(*resourceapi.ResourceClaim).Name
		if action.GetSubresource() == "status" {
			kind = "updateStatus"
		}
	case clienttesting.CreateActionImpl:
		w.generated++
		kind, name = "create", action.GetObject().(*resourceapi.ResourceClaim).GenerateName+"g"+strconv.Itoa(w.generated)
	case clienttesting.DeleteActionImpl:
		kind, name = "delete", action.GetName()
	case clienttesting.PatchActionImpl:
		kind, name, more = "patch", action.GetName(), " "+string(action.GetPatch())
	case clienttesting.GetActionImpl:
		name = action.GetName()
	default:
		panic(fmt.Sprintf("%T", a))
	}
	if kind != "" {
		if err := w.writes.write(kind, a.GetNamespace(), name, more); err != nil {
			return true, nil, err
		}
	}
	old := w.claim(a.GetNamespace() + "/" + name)
	if old == nil && kind != "create" {
		return true, nil, apierrors.NewNotFound(claimResource, name)
	}
	switch action := a.(type) {
	case clienttesting.UpdateActionImpl:
		return w.updateClaim(old, action.GetObject().(*resourceapi.ResourceClaim).DeepCopy(), kind)
	case clienttesting.CreateActionImpl:
		made := action.GetObject().(*resourceapi.ResourceClaim).DeepCopy()
		made.Name = name
		made.UID = types.UID("claim/" + made.Namespace + "/" + made.Name)
		w.put(made)
		return true, made.DeepCopy(), nil
	case clienttesting.DeleteActionImpl:
		w.deleteClaim(old)
		return true, nil, nil
	case clienttesting.PatchActionImpl:
		made := w.patchClaim(old, action.GetPatch())
		return true, made.DeepCopy(), nil
	}
	return true, old.DeepCopy(), nil
}

func (w *world) updateClaim(old, given *resourceapi.ResourceClaim, kind string) (bool, runtime.Object, error) {
	if given.ResourceVersion != old.ResourceVersion {
		return true, nil, apierrors.NewConflict(claimResource, given.Name, errors.New("the object has been modified"))
	}
	made := old.DeepCopy()
	if kind == "update" {
		made.ObjectMeta, made.Spec = given.ObjectMeta, given.Spec
		w.put(made)
		return true, made.DeepCopy(), nil
	}
	made.Status = given.Status
	w.put(made)
	if w.writes.conditions != nil && old.Status.Allocation == nil {
		w.reportDevices(made, w.writes.conditions)
	}
	return true, made.DeepCopy(), nil
}

// Entries of reservedFor go.
func (w *world) patchClaim(old *resourceapi.ResourceClaim, patch []byte) *resourceapi.ResourceClaim {
	var gone struct {
		Status struct {
			ReservedFor []struct {
				UID types.UID `json:"uid"`
			} `json:"reservedFor"`
		} `json:"status"`
	}
	check(json.Unmarshal(patch, &gone))
	made := old.DeepCopy()
	for _, one := range gone.Status.ReservedFor {
		made.Status.ReservedFor = slices.DeleteFunc(made.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == one.UID })
	}
	w.put(made)
	return made
}

// The driver's report about the allocated devices that have binding conditions; whether there is one.
func (w *world) reportDevices(claim *resourceapi.ResourceClaim, conditions []metav1.Condition) bool {
	if claim == nil || claim.Status.Allocation == nil {
		return false
	}
	made := claim.DeepCopy()
	made.Status.Devices = nil
	for _, one := range made.Status.Allocation.Devices.Results {
		if len(one.BindingConditions) > 0 {
			made.Status.Devices = append(made.Status.Devices, resourceapi.AllocatedDeviceStatus{
				Driver: one.Driver, Pool: one.Pool, Device: one.Device, ShareID: (*string)(one.ShareID), Conditions: conditions,
			})
		}
	}
	if made.Status.Devices == nil {
		return false
	}
	if !reflect.DeepEqual(made.Status.Devices, claim.Status.Devices) {
		w.put(made)
	}
	return true
}

// Of each feasible node the devices of each claim that was to be allocated. The plugin does not export its state.
func allocationsOf(state *framework.CycleState, feasible []fwk.NodeInfo) M {
	found := M{}
	data, err := state.Read("DynamicResources")
	if err != nil {
		return found
	}
	nodes := reflect.ValueOf(data).Elem().FieldByName("nodeAllocations")
	for _, n := range feasible {
		node := nodes.MapIndex(reflect.ValueOf(n.Node().Name))
		if !node.IsValid() {
			continue
		}
		claims := []any{}
		for _, claim := range node.FieldByName("allocationResults").Seq2() {
			devices := []any{}
			for _, one := range claim.FieldByName("Devices").FieldByName("Results").Seq2() {
				text := func(name string) string { return one.FieldByName(name).String() }
				devices = append(devices, text("Request")+"="+text("Driver")+"/"+text("Pool")+"/"+text("Device"))
			}
			claims = append(claims, devices)
		}
		put(found, n.Node().Name, claims)
	}
	return found
}

func (w *world) claim(key string) *resourceapi.ResourceClaim {
	got, exists, _ := w.factory.known[reflect.TypeOf(&resourceapi.ResourceClaim{})].GetIndexer().GetByKey(key)
	if !exists {
		return nil
	}
	return got.(*resourceapi.ResourceClaim)
}

func (w *world) claims() map[string]*resourceapi.ResourceClaim {
	all := map[string]*resourceapi.ResourceClaim{}
	for _, c := range w.factory.known[reflect.TypeOf(&resourceapi.ResourceClaim{})].GetIndexer().List() {
		claim := c.(*resourceapi.ResourceClaim)
		all[claim.Namespace+"/"+claim.Name] = claim
	}
	return all
}

var deletedAt = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

func (w *world) deleteClaim(claim *resourceapi.ResourceClaim) {
	if len(claim.Finalizers) == 0 {
		w.remove(claim)
		return
	}
	made := claim.DeepCopy()
	if made.DeletionTimestamp == nil {
		made.DeletionTimestamp = &deletedAt
	}
	w.put(made)
}

func ownedBy(c *resourceapi.ResourceClaim, uid types.UID) bool {
	return slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == uid })
}

func (w *world) releaseClaims(namespace, name string) bool {
	uid := types.UID(namespace + "/" + name)
	done := false
	for _, k := range sorted(w.claims()) {
		c := w.claim(k)
		if c.Namespace != namespace {
			continue
		}
		had := slices.ContainsFunc(c.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == uid })
		owned := ownedBy(c, uid)
		if !had && !owned {
			continue
		}
		done = true
		made := c.DeepCopy()
		made.Status.ReservedFor = slices.DeleteFunc(made.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == uid })
		if len(made.Status.ReservedFor) == 0 {
			made.Status.Allocation, made.Status.Devices = nil, nil
			made.Finalizers = slices.DeleteFunc(made.Finalizers, func(f string) bool { return f == resourceapi.Finalizer })
			if (owned || made.DeletionTimestamp != nil) && len(made.Finalizers) == 0 {
				w.remove(c)
				continue
			}
		}
		w.put(made)
	}
	return done
}

func claimJSON(c *resourceapi.ResourceClaim) M {
	b, _ := json.Marshal(c.Status)
	status := M{}
	json.Unmarshal(b, &status)
	one := M{"status": status}
	put(one, "finalizers", strs(c.Finalizers))
	if c.DeletionTimestamp != nil {
		one["deleting"] = true
	}
	return one
}

func (w *world) changed(before map[string]*resourceapi.ResourceClaim) M {
	result := M{}
	after := w.claims()
	for k, c := range after {
		if before[k] != c {
			one := claimJSON(c)
			if before[k] == nil && c.GenerateName != "" {
				b, _ := json.Marshal(c)
				whole := M{}
				json.Unmarshal(b, &whole)
				meta := whole["metadata"].(M)
				one["created"], one["generateName"] = true, c.GenerateName
				put(one, "annotations", meta["annotations"])
				put(one, "ownerReferences", meta["ownerReferences"])
				put(one, "spec", whole["spec"])
			}
			result[k] = one
		}
	}
	for k := range before {
		if after[k] == nil {
			result[k] = M{"deleted": true}
		}
	}
	return result
}
