// What the handles of rondo.h are.
#pragma once

#include <memory>

#include "rondo/captured_graph.h"
#include "rondo/kernel_node_params.h"
#include "rondo/rondo.h"
#include "rondo/site_map.h"

struct rondo_device {
  std::shared_ptr<rondo::Device> device;
};
struct rondo_kernel_node_params {
  rondo::KernelNodeParams params;
};
struct rondo_captured_graph {
  rondo::CapturedGraph graph;
};
struct rondo_site_map {
  rondo::SiteMap map;
};
