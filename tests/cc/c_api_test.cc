// The C API at size 1: life cycle, requests, errors. Several ranks: tests/parallel.
#include "c_api.h"

#include <cstring>
#include <string>
#include <vector>

#include "test.h"

namespace tfring::test {
namespace {

tfr_request Allreduce(const tfr_tensor* tensors, int count) {
  tfr_request request = {};
  request.struct_size = sizeof(request);
  request.name = "x";
  request.kind = TFR_ALLREDUCE;
  request.dtype = TFR_FLOAT32;
  request.prescale = 1;
  request.postscale = 1;
  request.tensors = tensors;
  request.num_tensors = count;
  return request;
}

TEST(TheApiStartsStopsAndStartsAgain) {
  EXPECT_EQ(tfr_abi_version(), TFR_ABI_VERSION);
  EXPECT_EQ(tfr_rank(), -1);
  EXPECT_TRUE(tfr_health() == TFR_NOT_INITIALIZED);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(tfr_init("rank=0\nsize=1\n") == TFR_OK);
    EXPECT_EQ(tfr_is_initialized(), 1);
    EXPECT_EQ(tfr_size(), 1);
    EXPECT_TRUE(tfr_health() == TFR_OK);
    EXPECT_TRUE(tfr_init("rank=0\nsize=1\n") == TFR_INVALID_ARGUMENT);
    EXPECT_CONTAINS(std::string(tfr_last_error()), "initialised already");
    EXPECT_TRUE(tfr_shutdown() == TFR_OK);
    EXPECT_TRUE(tfr_shutdown() == TFR_OK);
    EXPECT_EQ(tfr_is_initialized(), 0);
  }
}

TEST(TheApiRunsARequest) {
  ASSERT_TRUE(tfr_init("rank=0\nsize=1\n") == TFR_OK);
  std::vector<float> input = {1, 2, 3};
  std::vector<float> output(3);
  const int64_t dims[] = {3};
  const tfr_tensor tensor = {input.data(), output.data(), dims, 1};
  tfr_request request = Allreduce(&tensor, 1);
  request.postscale = 2;
  EXPECT_TRUE(tfr_run(&request) == TFR_OK);
  EXPECT_EQ(output[2], 6.0f);
  tfr_operation* operation = nullptr;
  ASSERT_TRUE(tfr_start(&request, &operation) == TFR_OK);
  EXPECT_TRUE(tfr_wait(operation, 10) == TFR_OK);
  tfr_shutdown();
}

TEST(TheApiRefusesWhatIsNoRequest) {
  std::vector<float> values = {1, 2, 3};
  const int64_t dims[] = {3};
  const int64_t negative[] = {-3};
  const tfr_tensor tensor = {values.data(), values.data(), dims, 1};
  tfr_request request = Allreduce(&tensor, 1);
  EXPECT_TRUE(tfr_run(&request) == TFR_NOT_INITIALIZED);
  ASSERT_TRUE(tfr_init("rank=0\nsize=1\n") == TFR_OK);
  EXPECT_TRUE(tfr_run(nullptr) == TFR_INVALID_ARGUMENT);
  request.struct_size = 8;
  EXPECT_TRUE(tfr_run(&request) == TFR_INVALID_ARGUMENT);
  request = Allreduce(&tensor, 1);
  request.dtype = static_cast<tfr_dtype>(99);
  EXPECT_TRUE(tfr_run(&request) == TFR_INVALID_ARGUMENT);
  EXPECT_CONTAINS(std::string(tfr_last_error()), "received 99");
  request = Allreduce(&tensor, 1);
  request.name = "";
  EXPECT_TRUE(tfr_run(&request) == TFR_INVALID_ARGUMENT);
  request = Allreduce(nullptr, 0);
  EXPECT_TRUE(tfr_run(&request) == TFR_INVALID_ARGUMENT);
  const tfr_tensor impossible = {values.data(), values.data(), negative, 1};
  request = Allreduce(&impossible, 1);
  EXPECT_TRUE(tfr_run(&request) == TFR_INVALID_ARGUMENT);
  const tfr_tensor homeless = {values.data(), nullptr, dims, 1};
  request = Allreduce(&homeless, 1);
  EXPECT_TRUE(tfr_run(&request) == TFR_INVALID_ARGUMENT);
  EXPECT_CONTAINS(std::string(tfr_last_error()), "no memory");
  request = Allreduce(&tensor, 1);
  request.kind = TFR_ALLGATHER;
  EXPECT_TRUE(tfr_run(&request) == TFR_INVALID_ARGUMENT);
  request = Allreduce(&tensor, 1);
  request.kind = TFR_BROADCAST;
  request.root = 1;
  EXPECT_TRUE(tfr_run(&request) == TFR_INVALID_ARGUMENT);
  EXPECT_CONTAINS(std::string(tfr_last_error()), "root 1 is not a member");
  tfr_shutdown();
}

TEST(TheApiServesAStore) {
  tfr_store_server* server = nullptr;
  ASSERT_TRUE(tfr_store_server_start("127.0.0.1", 0, "secret", &server) == TFR_OK);
  const int port = tfr_store_server_port(server);
  tfr_store_client* client = nullptr;
  EXPECT_TRUE(tfr_store_client_connect("127.0.0.1", port, "wrong", 5, &client) ==
              TFR_UNAUTHENTICATED);
  ASSERT_TRUE(tfr_store_client_connect("127.0.0.1", port, "secret", 5, &client) == TFR_OK);
  EXPECT_TRUE(tfr_store_set(client, "k", "a\0b", 3) == TFR_OK);
  void* value = nullptr;
  size_t size = 0;
  ASSERT_TRUE(tfr_store_get(client, "k", 1, &value, &size) == TFR_OK);
  EXPECT_EQ(size, size_t{3});
  EXPECT_EQ(std::memcmp(value, "a\0b", 3), 0);
  tfr_free(value);
  int64_t count = 0;
  EXPECT_TRUE(tfr_store_add(client, "n", 5, &count) == TFR_OK);
  EXPECT_TRUE(tfr_store_add(client, "n", -2, &count) == TFR_OK);
  EXPECT_EQ(count, int64_t{3});
  EXPECT_TRUE(tfr_store_delete(client, "k") == TFR_OK);
  EXPECT_TRUE(tfr_store_get(client, "k", 0.05, &value, &size) == TFR_TIMEOUT);
  EXPECT_CONTAINS(std::string(tfr_last_error()), "k");
  tfr_store_client_close(client);
  tfr_store_server_stop(server);
}

}  // namespace
}  // namespace tfring::test
