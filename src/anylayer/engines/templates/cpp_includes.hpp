#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include <unistd.h>

