// The C interface as a C program sees it, on a machine without any GPU: codes, messages, site maps. What
// needs a graph is in tests/unit/c_interface_test.cpp and tests/doubles.
#include <stdio.h>
#include <string.h>

#include "rondo/rondo.h"

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s (last error: %s)\n", what, rondo_last_error());
  ++failures;
}
#define EXPECT(condition) expect((condition), #condition)

static void devices(void) {
  rondo_device* device = NULL;
  EXPECT(rondo_device_open("cuda:0", &device) == RONDO_MISSING);
  EXPECT(strstr(rondo_last_error(), "/no/such/libcuda.so.1") != NULL);
  EXPECT(rondo_device_open("gpu", &device) == RONDO_BAD_ARGUMENT);
  EXPECT(strstr(rondo_last_error(), "\"gpu\"") != NULL);
  EXPECT(rondo_device_open(NULL, &device) == RONDO_BAD_ARGUMENT);
  EXPECT(rondo_device_open("host", NULL) == RONDO_BAD_ARGUMENT);
  EXPECT(device == NULL);

  EXPECT(rondo_device_open("host", &device) == RONDO_OK);
  rondo_captured_graph* captured = NULL;
  rondo_kernel_node_params* params = NULL;
  int no_graph = 0;
  EXPECT(rondo_captured_graph_adopt(device, &no_graph, NULL, 0, &captured) == RONDO_BAD_ARGUMENT);
  EXPECT(strstr(rondo_last_error(), "host") != NULL);
  EXPECT(rondo_kernel_node_params_copy(device, &no_graph, NULL, 0, &params) == RONDO_BAD_ARGUMENT);
  EXPECT(captured == NULL && params == NULL);
  rondo_device_close(device);
}

static void site_maps(void) {
  const char* const json =
      "{\"rondo_site_map\": 1, \"nodes\": [{\"path\": \"0\", \"kind\": \"kernel\", \"name\": \"k\", "
      "\"argument_bytes\": [8]}],"
      " \"buffers\": {\"kv\": [{\"node\": 0, \"argument\": 0, \"offset\": 0, \"addend\": 64}]}, \"scalars\": "
      "{}}";
  rondo_site_map* map = NULL;
  EXPECT(rondo_site_map_parse("{", &map) == RONDO_BAD_ARGUMENT);
  EXPECT(rondo_site_map_parse(json, &map) == RONDO_OK);
  char* text = NULL;
  EXPECT(rondo_site_map_to_json(map, &text) == RONDO_OK);
  EXPECT(text != NULL && strstr(text, "\"addend\":64") != NULL);
  rondo_string_free(text);
  EXPECT(rondo_site_map_check(map, NULL) == RONDO_BAD_ARGUMENT);
  EXPECT(strstr(rondo_last_error(), "`captured`") != NULL);
  rondo_site_map_free(map);
}

int main(void) {
  EXPECT(strcmp(rondo_last_error(), "") == 0);
  EXPECT(strchr(rondo_version(), '.') != NULL);
  devices();
  site_maps();
  rondo_device_close(NULL);
  rondo_captured_graph_free(NULL);
  rondo_kernel_node_params_free(NULL);
  rondo_site_map_free(NULL);
  rondo_string_free(NULL);
  return failures == 0 ? 0 : 1;
}
