// Resource claims: what controllers and the API server do with them, and how results tell of them.

package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
